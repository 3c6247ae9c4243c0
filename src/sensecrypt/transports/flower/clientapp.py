"""The ClientApp: passes each message to the client, and replies with its answer or the reason for a failure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from sensecrypt.client.client import NO_PART
from sensecrypt.client.identity import Identity, read_identity
from sensecrypt.client.joining import Load, join_run, require_terms
from sensecrypt.client.problem import configured_share
from sensecrypt.client.training import Recipe, warm_up
from sensecrypt.errors import InvalidInput, SenseCryptError
from sensecrypt.protocol.requests import FAILURE, Challenge, Parts, require_parts
from sensecrypt.transports.flower.proof import Statement, prove
from sensecrypt.transports.flower.settings import read_settings
from sensecrypt.transports.flower.wire import pack, unpack

IDENTITY = "sensecrypt-identity"  # the key of the node's configuration that names the identity file

_LOG = logging.getLogger("sensecrypt.client")


def make_app(load: Load | None, *, recipe: Recipe) -> ClientApp:
    """See `sensecrypt.transports.flower.client_app`."""
    app = ClientApp()

    def answer(message: Message, context: Context, kind: str) -> Message:
        return _reply(message, lambda parts: _answer(context, load or configured_share, recipe, kind, parts))

    @app.query("prove")
    def prove_(message: Message, context: Context) -> Message:
        return _reply(message, lambda parts: _prove(context, parts))

    @app.query("enrol")
    def enrol(message: Message, context: Context) -> Message:
        return answer(message, context, "enrol")

    @app.train("rank")
    def rank(message: Message, context: Context) -> Message:
        return answer(message, context, "rank")

    @app.train("propose")
    def propose(message: Message, context: Context) -> Message:
        return answer(message, context, "propose")

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return answer(message, context, "train")

    @app.query("finish")
    def finish(message: Message, context: Context) -> Message:
        return answer(message, context, "finish")

    return app


def _reply(message: Message, work: Callable[[Parts], Parts]) -> Message:
    """The reply to a message: the result of the work, or the reason for its failure."""
    try:
        parts = work(unpack(message.content))
    except SenseCryptError as error:
        parts = {FAILURE: str(error).encode()}
    except Exception:  # its text may contain this client's data
        _LOG.exception("nothing is sent")
        parts = {FAILURE: NO_PART.encode()}
    return Message(pack(parts), reply_to=message)


def _prove(context: Context, parts: Parts) -> Parts:
    challenge = Challenge.from_bytes(require_parts(parts, needed={"challenge"})["challenge"])
    settings, identity = read_settings(context.run_config), _identity(context)
    with identity.connect() as dkms:
        require_terms(settings.config, settings.run, identity, dkms)
    statement = Statement(settings.run, context.node_id, challenge.nonce)
    return {"proof": prove(statement, certificate=identity.certificate, key=identity.key)}


def _answer(context: Context, load: Load, recipe: Recipe, kind: str, parts: Parts) -> Parts:
    needed = {"invitation"} if kind == "enrol" else {"assignment"}
    require_parts(parts, needed=needed, allowed={"agreed"} if kind == "train" else set())
    identity, settings = _identity(context), read_settings(context.run_config)
    torch.set_num_threads(1)  # the same sums on every machine
    warm_up()
    with identity.connect() as dkms:
        return join_run(settings.config, settings.run, identity, dkms, load, recipe=recipe).answer(kind, parts)


def _identity(context: Context) -> Identity:
    place = context.node_config.get(IDENTITY)
    if not isinstance(place, str):
        fix = f"start the SuperNode with --node-config '{IDENTITY}=\"/path/to/identity.toml\"'"
        raise InvalidInput(IDENTITY, "is not in this node's configuration", fix)
    return read_identity(Path(place))
