"""What blindings hide, what they cost on the wire, and that only the whole sum gives them up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sensecrypt import Mask
from sensecrypt.errors import Rejected
from sensecrypt.protocol.aggregator import RoundSum
from sensecrypt.protocol.keyserver import decrypt_aggregate
from sensecrypt.protocol.messages import Tag, Upload
from sensecrypt.protocol.protection import model_format
from sensecrypt.protocol.tags import SEED_BYTES, Blinding, new_blinding, sum_of, wrap
from tests.protocol.test_round import CLIENTS, SIZE, Cluster, a_round, masks_of

WIDE = 20_000


def half(cluster: Cluster) -> list[Mask]:
    return [Mask.prefix(cluster.round.blocks // 2, size=cluster.round.size, block=cluster.round.block)] * CLIENTS


def summed(cluster: Cluster, protected, clients=range(CLIENTS)) -> RoundSum:
    total = RoundSum(cluster.round, cluster.public)
    for client in clients:
        total.add(protected[client].upload, sender=client)
    return total


def test_a_blinded_upload_has_the_length_of_a_plain_one():
    plain, blinded = Cluster(), Cluster(blinded=True)
    assert len(blinded.protect(half(blinded))[0].upload) == len(plain.protect(half(plain))[0].upload)


def test_what_is_not_encrypted_looks_like_noise_and_never_twice_alike():
    cluster = Cluster(size=WIDE, blinded=True)
    cluster.models[:] = 0.25  # one value for all: whatever pattern shows is the blinding's
    first, second = (Upload.from_bytes(cluster.protect(half(cluster))[0].upload, cluster.round).plain for _ in range(2))
    assert not (first == second).any()
    for seen in (first, second, first - second, np.diff(first)):
        bits = np.unpackbits(wrap(seen, cluster.round).astype("<i4").view(np.uint8))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    correlation = np.corrcoef(first, np.roll(first, 1))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(first.size)


def test_the_pad_is_aes_256_in_counter_mode():
    round_ = a_round("insecure-test")
    blinding = Blinding(bytes(range(SEED_BYTES)), Mask.prefix(1, size=SIZE, block=round_.block))
    stream = Cipher(algorithms.AES256(blinding.seed), modes.CTR(bytes(16))).encryptor().update(bytes(4 * SIZE))
    expected = np.frombuffer(stream, dtype="<i4").astype(np.int64)
    expected[: round_.block] = 0
    assert blinding.values(round_).tolist() == expected.tolist()


@given(st.integers(0, 2**32), st.sampled_from(["insecure-test", "paillier-2048-slot16", "paillier-2048-slot64"]))
@settings(max_examples=30)
def test_pads_cancel_whatever_the_width_of_a_slot(seed, profile):
    round_ = a_round(profile)
    rng = np.random.default_rng(seed)
    bits = round_.profile.slot_bits
    values = rng.integers(-(2 ** (bits - 3)), 2 ** (bits - 3), (CLIENTS, SIZE))
    masks = [Mask(rng.random(round_.blocks) < 0.5, SIZE, round_.block) for _ in range(CLIENTS)]
    blindings = [new_blinding(mask) for mask in masks]
    sent = sum(wrap(each + blinding.values(round_), round_) for each, blinding in zip(values, blindings, strict=True))
    assert wrap(sent - sum_of(blindings, round_), round_).tolist() == values.sum(axis=0).tolist()


def test_without_its_pads_a_sum_says_nothing_about_the_rest():
    cluster = Cluster(size=WIDE, blinded=True)
    cluster.models[:] = 0.25
    protected = cluster.protect(half(cluster))
    aggregate = summed(cluster, protected).close()
    blindings = [Tag.from_bytes(each.tag, cluster.round).blinding for each in protected]
    _, released, *_ = decrypt_aggregate(aggregate, cluster.round, cluster.secret, None, blindings=blindings)
    assert (np.abs(released - released[0]) <= CLIENTS).all()
    rest = ~aggregate.common.to_array()
    for known in ([], blindings[:-1]):  # even whoever knows all blindings but one
        seen = decrypt_aggregate(aggregate, cluster.round, cluster.secret, None, blindings=known)[1][rest]
        high = np.count_nonzero(seen > 0) / seen.size
        assert abs(high - 0.5) < 5 * 0.5 / np.sqrt(seen.size)


def test_only_the_whole_sum_comes_out_of_blocks_that_one_client_encrypted():
    """Without blindings, that client's values would follow by subtracting the others' plain ones."""
    cluster = Cluster(blinded=True)
    masks = [
        Mask.prefix(cluster.round.blocks if client == 2 else 0, size=SIZE, block=cluster.round.block)
        for client in range(CLIENTS)
    ]
    protected = cluster.protect(masks)
    uploads = [Upload.from_bytes(each.upload, cluster.round) for each in protected]
    total = summed(cluster, protected)
    for client, each in enumerate(protected):
        cluster.server.take_tag(each.tag, cluster.round, sender=client)
    released = cluster.server.release(total.close().to_bytes(cluster.round), cluster.round).values
    seen = released - sum(uploads[client].plain for client in (0, 1, 3))
    true = model_format(cluster.round).encode(cluster.models[2], cluster.round.weights[2])
    assert not (wrap(seen, cluster.round) == true).any()


@pytest.mark.parametrize("lone", ["padder", "encrypter"])
@pytest.mark.parametrize("shift", [1, 2**20, 2**30, 2**31 - 2**26, 2**31 - 1])
def test_nothing_can_be_moved_between_ciphertexts_and_rest(lone, shift):
    """If it could, whether the sum still verifies would tell if one client's value and the shift overflow a slot."""
    cluster = Cluster(blinded=True)
    blocks = cluster.round.blocks
    masks = [
        Mask.prefix(blocks if (client == 2) == (lone == "encrypter") else 0, size=SIZE, block=cluster.round.block)
        for client in range(CLIENTS)
    ]
    protected = cluster.protect(masks)
    for client, each in enumerate(protected):
        cluster.server.take_tag(each.tag, cluster.round, sender=client)
    true = summed(cluster, protected).close()
    moved, plain = np.zeros(SIZE, dtype=np.int64), true.plain.copy()
    moved[7], plain[7] = shift, plain[7] - shift
    wrong = replace(true, ciphertexts=cluster.public.add_plain(true.ciphertexts, moved), plain=plain)
    with pytest.raises(Rejected) as refusal:
        cluster.server.release(wrong.to_bytes(cluster.round), cluster.round)
    assert refusal.value.code == "tags-mismatch"
    assert cluster.server.release(true.to_bytes(cluster.round), cluster.round)


def test_sums_that_do_not_decrypt_and_sums_that_do_not_match_are_refused_alike():
    """A difference would tell, of any ciphertext, whether what is in it is in range: enough to read it bit by bit."""
    cluster = Cluster(blinded=True)
    protected = cluster.protect(half(cluster))
    for client, each in enumerate(protected):
        cluster.server.take_tag(each.tag, cluster.round, sender=client)
    true = summed(cluster, protected).close()
    garbage = np.random.default_rng(0).integers(0, 256, true.ciphertexts.shape, dtype=np.uint8)
    garbage[:, 0] = garbage[:, -1] = 0  # below the modulus, at whichever end its high bytes are
    wrongs = [replace(true, plain=true.plain + 1), replace(true, ciphertexts=garbage)]
    wrongs.append(replace(true, ciphertexts=np.zeros_like(true.ciphertexts)))
    told = set()
    for wrong in wrongs:
        with pytest.raises(Rejected) as refusal:
            cluster.server.release(wrong.to_bytes(cluster.round), cluster.round)
        told.add((refusal.value.code, str(refusal.value)))
    assert len(told) == 1


def test_a_sum_that_does_not_decrypt_is_refused_whatever_the_tags_say():
    cluster = Cluster(blinded=True)
    protected = cluster.protect(masks_of("full", cluster.round, None))
    for client in range(CLIENTS):
        nothing = Tag(client, 0, 0).to_bytes(cluster.round)
        cluster.server.take_tag(nothing, cluster.round, sender=client)
    true = summed(cluster, protected).close()
    wrong = replace(true, ciphertexts=np.zeros_like(true.ciphertexts))
    with pytest.raises(Rejected, match="tags"):
        cluster.server.release(wrong.to_bytes(cluster.round), cluster.round)


def test_a_pad_that_is_not_the_uploads_is_caught():
    cluster = Cluster(blinded=True)
    first, again = cluster.protect(half(cluster)), cluster.protect(half(cluster))
    for client in range(CLIENTS):
        signed = (again if client == 1 else first)[client].tag
        cluster.server.take_tag(signed, cluster.round, sender=client)
    with pytest.raises(Rejected, match="tags"):
        cluster.server.release(summed(cluster, first).close().to_bytes(cluster.round), cluster.round)


def test_who_pads_and_who_does_not_may_meet_in_one_sum():
    cluster, reference = Cluster(blinded=True), Cluster()
    masks = masks_of("blocks", cluster.round, None)
    blinded = cluster.protect(masks)
    cluster.blinded = False
    mixed = [blinded[0], *cluster.protect(masks)[1:]]
    for client, each in enumerate(mixed):
        cluster.server.take_tag(each.tag, cluster.round, sender=client)
    released = cluster.server.release(summed(cluster, mixed).close().to_bytes(cluster.round), cluster.round)
    protected = reference.protect(masks)
    for client, each in enumerate(protected):
        reference.server.take_tag(each.tag, reference.round, sender=client)
    expected = reference.server.release(summed(reference, protected).close().to_bytes(reference.round), reference.round)
    assert released.values.tolist() == expected.values.tolist()


def test_a_tag_keeps_its_pad_through_bytes_and_out_of_logs():
    round_ = a_round("insecure-test")
    for mask in masks_of("blocks", round_, None):
        signed = Tag(1, 2**60, 3, new_blinding(mask))
        again = Tag.from_bytes(signed.to_bytes(round_), round_)
        assert again == signed
        assert again != replace(signed, blinding=new_blinding(mask))
        assert signed.blinding.seed.hex() not in repr(signed)
        assert repr(signed.blinding.seed) not in repr(signed)
    assert Tag.from_bytes(Tag(1, 5, 3).to_bytes(round_), round_) == Tag(1, 5, 3)


def test_half_a_pad_is_rejected():
    round_ = a_round("insecure-test")
    mask = Mask.prefix(2, size=SIZE, block=round_.block)
    other = Mask.prefix(round_.blocks + 1, size=SIZE + 5 * round_.block, block=round_.block)
    for blinding in (Blinding(b"short", mask), Blinding(b"", mask), Blinding(bytes(SEED_BYTES), other)):
        with pytest.raises(Rejected):
            Tag.from_bytes(Tag(0, 5, 3, blinding).to_bytes(round_), round_)


def test_a_model_that_is_encrypted_whole_needs_no_blinding():
    cluster = Cluster(blinded=True)
    for each in cluster.protect(masks_of("full", cluster.round, None)):
        assert Tag.from_bytes(each.tag, cluster.round).blinding is None
