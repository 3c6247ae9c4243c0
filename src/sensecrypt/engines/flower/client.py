"""The ClientApp: for each kind of message, what a member does, and its answer or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from sensecrypt.engines.flower.member import Load, Member
from sensecrypt.engines.flower.messages import Assignment, Challenge
from sensecrypt.engines.flower.party import read_party
from sensecrypt.engines.flower.proof import Statement
from sensecrypt.engines.flower.settings import read_settings
from sensecrypt.engines.flower.wire import FAILURE, Parts, pack, unpack
from sensecrypt.engines.problem import configured_share
from sensecrypt.engines.training import Fit, warm_up
from sensecrypt.errors import InvalidInput, SenseCryptError

PARTY = "sensecrypt-party"  # the key of the node's configuration that names the party file


def make_app(load: Load | None, *, fit: Fit | None) -> ClientApp:
    """See `sensecrypt.engines.flower.client_app`."""
    app = ClientApp()

    def answer(message: Message, context: Context, work: Callable[[Member, Parts], Parts], part: str) -> Message:
        try:
            received = unpack(message.content, needed={part})
            parts = _as_member(context, load or configured_share, fit, lambda member: work(member, received))
        except SenseCryptError as error:
            parts = {FAILURE: str(error).encode()}
        return Message(pack(parts), reply_to=message)

    @app.query("enrol")
    def enrol(message: Message, context: Context) -> Message:
        def work(member: Member, received: Parts) -> Parts:
            challenge = Challenge.from_bytes(received["challenge"])
            statement = Statement(read_settings(context.run_config).run, context.node_id, challenge.nonce)
            return member.enrol(statement, challenge.sketch_seed)

        return answer(message, context, work, "challenge")

    @app.train("rank")
    def rank(message: Message, context: Context) -> Message:
        return answer(message, context, lambda member, parts: member.rank(_assignment(parts)), "assignment")

    @app.train()
    def play(message: Message, context: Context) -> Message:
        return answer(message, context, lambda member, parts: member.play(_assignment(parts)), "assignment")

    @app.query("finish")
    def finish(message: Message, context: Context) -> Message:
        return answer(message, context, lambda member, parts: member.finish(_assignment(parts)), "assignment")

    return app


def _as_member(context: Context, load: Load, fit: Fit | None, work: Callable[[Member], Parts]) -> Parts:
    place = context.node_config.get(PARTY)
    if not isinstance(place, str):
        fix = f"start the SuperNode with --node-config '{PARTY}=\"/path/to/party.toml\"'"
        raise InvalidInput(PARTY, "is not in this node's configuration", fix)
    torch.set_num_threads(1)  # the same sums on every machine
    warm_up()
    party = read_party(Path(place))
    with party.connect() as dkms:
        return work(Member(read_settings(context.run_config), party, dkms, load, fit=fit))


def _assignment(parts: Parts) -> Assignment:
    return Assignment.from_bytes(parts["assignment"])
