"""The client's side of a round: encode an update, encrypt the selected blocks, blind the others, compute the tags."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sensecrypt import checks
from sensecrypt.crypto.encoding import FixedPoint
from sensecrypt.crypto.scheme import DecryptionKey, EncryptionKey, Ints
from sensecrypt.errors import InvalidInput, ValueDoesNotFit
from sensecrypt.protocol.messages import Tag, Upload
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import PRIME, mac_tag, new_blinding, new_tag_offset, taggable, wrap
from sensecrypt.types import Mask
from sensecrypt.worktime import Cost, work_seconds

MODEL_FRACTION_BITS = {16: 10, 32: 24, 64: 24}  # the same for 32 and 64: packed and scalar give the same models
_MOST_FRACTION_BITS = 24
SENSITIVITY_FRACTION_BITS = {16: 14, 32: 30, 64: 30}


@dataclass(frozen=True)
class ProtectedUpdate:
    """The messages of a client in a round, upload to the aggregator and tag to the key server, and their cost."""

    upload: bytes = field(repr=False)
    tag: bytes = field(repr=False)  # contains the seed of the blinding
    cost: Cost


def model_format(round_: Round) -> FixedPoint:
    """Return the fixed-point format of weights and updates: ±128 in steps of 6·10⁻⁸ with 32-bit slots.

    In 16-bit slots, updates have the finest steps with which the largest of them fits.
    """
    form = _format(round_, MODEL_FRACTION_BITS)
    if round_.clip is None or form.slot_bits > 16:
        return form
    finer = form.frac_bits + math.floor(math.log2(form.largest / round_.clip))
    return replace(form, frac_bits=min(max(finer, 0), _MOST_FRACTION_BITS))


def sensitivity_format(round_: Round) -> FixedPoint:
    """Return the fixed-point format of sensitivities relative to their maximum."""
    return _format(round_, SENSITIVITY_FRACTION_BITS)


def protect_model(
    weights: npt.ArrayLike,
    mask: Mask,
    round_: Round,
    *,
    client: int,
    key: EncryptionKey | DecryptionKey,
    seed: bytes,
    blinded: bool,
) -> ProtectedUpdate:
    """Encode a trained model or a clipped update, encrypt the blocks of `mask`, and compute the tags.

    Args:
        weights: the model or the update, `round_.size` numbers.
        mask: the blocks to encrypt, in the round's block size, along the cluster's order if there is one.
        round_: the round.
        client: the client's number.
        key: the public key, or, faster, the secret key if clients hold it.
        seed: the seed of the round's tags.
        blinded: whether the rest is blinded, so that only the key server can read its sum; else it is plain.
    """
    values = model_format(round_).encode(weights, round_.share(client), name="weights")
    return _protect(values, mask, round_, client=client, key=key, seed=seed, blinded=blinded)


def protect_sensitivity(
    sensitivity: npt.ArrayLike, round_: Round, *, client: int, key: EncryptionKey | DecryptionKey, seed: bytes
) -> ProtectedUpdate:
    """Encode a client's sensitivities, relative to their maximum, and encrypt all of them."""
    gains = checks.sensitivity_vector("sensitivity", sensitivity)
    values = sensitivity_format(round_).encode(gains / gains.max(), round_.share(client), name="sensitivity")
    everything = Mask.prefix(round_.blocks, size=round_.size, block=round_.block)
    return _protect(values, everything, round_, client=client, key=key, seed=seed)


def protect_map(
    scores: npt.ArrayLike, round_: Round, *, client: int, key: EncryptionKey | DecryptionKey, seed: bytes
) -> ProtectedUpdate:
    """Encode a client's scores unscaled, so that their sum is the weighted mean, and encrypt all of them."""
    values = model_format(round_).encode(scores, round_.share(client), name="scores")
    everything = Mask.prefix(round_.blocks, size=round_.size, block=round_.block)
    return _protect(values, everything, round_, client=client, key=key, seed=seed)


def _format(round_: Round, fraction_bits: dict[int, int]) -> FixedPoint:
    """Return a format in which the sum over all members fits; a factor n counts as n summands."""
    bits, total = round_.profile.slot_bits, round_.factor_sum
    summands = max(1000, len(round_.weights), total)
    return FixedPoint(fraction_bits[bits], bits, weight_sum=float(total), max_summands=summands)


def _protect(
    values: Ints,
    mask: Mask,
    round_: Round,
    *,
    client: int,
    key: EncryptionKey | DecryptionKey,
    seed: bytes,
    blinded: bool = False,
) -> ProtectedUpdate:
    if (mask.size, mask.block) != (round_.size, round_.block) or values.size != round_.size:
        problem = f"is for {mask.size:,} parameters in blocks of {mask.block}"
        raise InvalidInput("mask", problem, f"this round has {round_.size:,} in blocks of {round_.block}")
    if blinded and round_.factors is not None:
        fix = "leave the rest plain, or let clients multiply by their weights"
        raise InvalidInput("blinded", "is not possible if the aggregator multiplies", fix)
    if not taggable(values, times=round_.factor_sum):
        fix = "keep values below 2^60 steps: tags of larger values prove nothing"
        raise ValueDoesNotFit("values", "are too large to be tagged", fix)
    in_slots = values if mask.order is None else values[mask.order]
    bare = Mask(mask.flags, mask.size, mask.block)
    hidden = bare.to_array()
    cost = Cost()
    ciphertexts = np.empty((0, round_.profile.ciphertext_bytes), dtype=np.uint8)
    if mask.blocks:
        make_ahead = getattr(key, "make_ahead", None)
        if make_ahead is not None:  # these randomizers count as computed before the round, so their time is separate
            start = work_seconds()
            make_ahead(mask.blocks)
            cost.ahead_seconds += work_seconds() - start
        with cost.of("encrypt", mask.blocks):
            ciphertexts = key.encrypt(in_slots[hidden])
    blinding = new_blinding(bare) if blinded and not hidden.all() else None
    rest = in_slots if blinding is None else wrap(in_slots + blinding.values(round_), round_)
    tag_offset = new_tag_offset()
    upload = Upload(client, bare, ciphertexts, rest[~hidden], tag_offset)
    whole = mac_tag(values, seed)
    encrypted = whole if hidden.all() else 0
    if mask.blocks and not hidden.all():
        encrypted = mac_tag(np.where(mask.to_array(), values, 0), seed)
    tags = ((whole + tag_offset.whole) % PRIME, (encrypted + tag_offset.encrypted) % PRIME)
    return ProtectedUpdate(upload.to_bytes(round_), Tag(client, *tags, blinding).to_bytes(round_), cost)
