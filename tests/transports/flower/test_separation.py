"""A fleet's client plays whole rounds in a process that cannot even import the secret side."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from flwr.app import Message

from sensecrypt.transports.flower.wire import RECORD, pack

SECRET = [
    *(f"sensecrypt.crypto.{name}" for name in ("ckks.secret", "keyfile", "keys", "paillier.secret", "secretschemes")),
    *("sensecrypt.protocol.keyserver", "sensecrypt.protocol.keyserver"),
    *("sensecrypt.keyservice.http.service", "sensecrypt.keyservice.http.vault"),
]
CODE = """
import base64, json, sys

SECRET = json.loads(sys.argv[1])

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in SECRET:
            raise ImportError(f"{name} is not for this process")

sys.meta_path.insert(0, Refuse())
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from sensecrypt.transports.flower import client_app
from sensecrypt.transports.flower.wire import RECORD, pack

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
app, told = client_app(), json.loads(sys.argv[2])
for line in sys.stdin:
    kind, parts = json.loads(line)
    content = pack({name: base64.b64decode(part) for name, part in parts.items()})
    message = Message(content, dst_node_id=told["node"], message_type=kind)
    context = Context(1, told["node"], {"sensecrypt-identity": told["identity"]}, RecordDict(), told["run_config"])
    record = app(message, context).content[RECORD]
    parts = {name: base64.b64encode(array.data).decode() for name, array in record.items()}
    print(json.dumps([parts, sorted(set(SECRET) & set(sys.modules))]), flush=True)
"""


def test_a_client_plays_where_the_secret_side_cannot_be_imported(fleet):
    played = fleet(rounds=1)
    told = {"node": 103, "identity": str(played.folder / "client-3.toml"), "run_config": played.run_config}
    command = [sys.executable, "-c", CODE, json.dumps(SECRET), json.dumps(told)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3] / "src"), *sys.path])}
    honest, asked = played.app, []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def app(message: Message, context) -> Message:
            if context.node_id != 103:
                return honest(message, context)
            kind = message.metadata.message_type
            parts = {name: base64.b64encode(array.data).decode() for name, array in message.content[RECORD].items()}
            process.stdin.write(json.dumps([kind, parts]) + "\n")
            process.stdin.flush()
            answer, loaded = json.loads(process.stdout.readline())
            assert loaded == []
            asked.append(kind)
            return Message(pack({name: base64.b64decode(part) for name, part in answer.items()}), reply_to=message)

        played.app = app
        outcome = played.play()
        process.stdin.close()
    assert process.returncode == 0
    assert asked == ["query.prove", "query.enrol", "train.rank", "train", "query.finish"]
    assert sorted(record.client for record in outcome.played) == [0, 1, 2, 3]
