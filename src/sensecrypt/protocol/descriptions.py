"""A round as bytes: what whoever starts a round tells the key server and the clients about it."""

from __future__ import annotations

import numpy as np

from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.profiles import get_profile
from sensecrypt.protocol.envelope import parse, serialize
from sensecrypt.protocol.round import Round

_FIELDS = {
    "run": str,
    "round": int,
    "attempt": int,
    "cluster": int,
    "purpose": str,
    "size": int,
    "profile": str,
    "clip": str,
}
_WHOLE_MODELS = "none"  # clip of a round whose members send models, not updates
_TENSORS = {"clients": (np.dtype("<i8"), 1), "weights": (np.dtype("<f8"), 1)}


def describe_round(round_: Round) -> bytes:
    """The message: members ascending, each with its weight; the aggregator of a fleet does not multiply."""
    if round_.factors is not None:
        fix = "let clients multiply by their weights"
        raise InvalidInput("factors", "are not part of a fleet's round", fix)
    clients = sorted(round_.weights)
    tensors = {
        "clients": np.array(clients, dtype="<i8"),
        "weights": np.array([round_.weights[client] for client in clients], dtype="<f8"),
    }
    clip = _WHOLE_MODELS if round_.clip is None else round_.clip.hex()
    fields = {**round_.header, "size": round_.size, "profile": round_.profile.name, "clip": clip}
    return serialize("round", fields, tensors)


def read_round(data: bytes) -> Round:
    """Read such a message, or raise `Rejected`."""
    fields, arrays = parse(data, "round", header=_FIELDS, tensors=_TENSORS)
    clients, weights = arrays["clients"], arrays["weights"]
    if clients.size != weights.size or clients.size == 0:
        raise Rejected("a round has members, each with one weight")
    if int(clients.min()) < 0 or (np.diff(clients) <= 0).any() or not np.isfinite(weights).all():
        raise Rejected("members are numbered from 0, ascending, with finite weights")
    if min(fields["round"], fields["attempt"], fields["cluster"]) < 0:
        raise Rejected("rounds, attempts and clusters are numbered from 0")
    try:
        clip = None if fields["clip"] == _WHOLE_MODELS else float.fromhex(fields["clip"])
        return Round(
            fields["run"],
            fields["round"],
            fields["cluster"],
            fields["purpose"],
            fields["size"],
            get_profile(fields["profile"]),
            dict(zip(clients.tolist(), weights.tolist(), strict=True)),
            fields["attempt"],
            clip=clip,
        )
    except InvalidInput as error:
        raise Rejected(f"an impossible round: {error.argument} {error.problem}"[:200]) from None
    except (ValueError, OverflowError):
        raise Rejected("an impossible round: clip is no number") from None
