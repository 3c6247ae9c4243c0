"""The ClientApp: for each kind of message, what a member does, and its answer or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from sensecrypt.engines.flower.member import Load, Member, prove_identity
from sensecrypt.engines.flower.messages import Assignment, Challenge, Invitation
from sensecrypt.engines.flower.party import Party, read_party
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
        def as_member(received: Parts) -> Parts:
            return _as_member(context, load or configured_share, fit, lambda member: work(member, received))

        return _reply(message, as_member, part)

    @app.query("prove")
    def prove(message: Message, context: Context) -> Message:
        return _reply(message, lambda parts: _prove(context, Challenge.from_bytes(parts["challenge"])), "challenge")

    @app.query("enrol")
    def enrol(message: Message, context: Context) -> Message:
        def work(member: Member, parts: Parts) -> Parts:
            return member.enrol(Invitation.from_bytes(parts["invitation"]).sketch_seed)

        return answer(message, context, work, "invitation")

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


def _reply(message: Message, work: Callable[[Parts], Parts], part: str) -> Message:
    """What the work makes of a message with that part, or why it failed."""
    try:
        parts = work(unpack(message.content, needed={part}))
    except SenseCryptError as error:
        parts = {FAILURE: str(error).encode()}
    return Message(pack(parts), reply_to=message)


def _prove(context: Context, challenge: Challenge) -> Parts:
    settings, party = read_settings(context.run_config), _party(context)
    with party.connect() as dkms:
        return prove_identity(settings, party, dkms, Statement(settings.run, context.node_id, challenge.nonce))


def _as_member(context: Context, load: Load, fit: Fit | None, work: Callable[[Member], Parts]) -> Parts:
    party = _party(context)
    torch.set_num_threads(1)  # the same sums on every machine
    warm_up()
    with party.connect() as dkms:
        return work(Member(read_settings(context.run_config), party, dkms, load, fit=fit))


def _party(context: Context) -> Party:
    place = context.node_config.get(PARTY)
    if not isinstance(place, str):
        fix = f"start the SuperNode with --node-config '{PARTY}=\"/path/to/party.toml\"'"
        raise InvalidInput(PARTY, "is not in this node's configuration", fix)
    return read_party(Path(place))


def _assignment(parts: Parts) -> Assignment:
    return Assignment.from_bytes(parts["assignment"])
