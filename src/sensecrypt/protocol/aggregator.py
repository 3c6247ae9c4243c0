"""The aggregator: adds uploads as they arrive and forgets them. It has no key that decrypts, and cannot import one."""

from __future__ import annotations

import numpy as np

from sensecrypt.crypto.scheme import Ciphertexts, EncryptionKey, multiplying
from sensecrypt.errors import InvalidCiphertext, Rejected
from sensecrypt.protocol.messages import Aggregate, Upload
from sensecrypt.protocol.round import Round
from sensecrypt.protocol.tags import TagOffset, wrap
from sensecrypt.types import Mask
from sensecrypt.worktime import Cost


class RoundSum:
    """The running sum of one cluster's round: one model's worth of memory, whatever the number of clients.

    In a round with factors it is FedAvg as the paper writes it: every upload is multiplied by its client's factor,
    which is the round's and not the upload's, and plain sums are added into the ciphertexts of the same parameters.
    """

    def __init__(self, round_: Round, public: EncryptionKey, *, cost: Cost | None = None) -> None:
        """An empty sum; a round with factors needs a key that multiplies.

        Args:
            round_: the round.
            public: the run's key.
            cost: where the cryptography is counted; None: in a cost of this sum's own.
        """
        self._round, self._public = round_, public
        self._multiply = None if round_.factors is None else multiplying(public).multiply
        self._encrypted = public.accumulator(round_.blocks)
        self._plain = np.zeros(round_.size, dtype=np.int64)
        self._tag_offset = TagOffset()
        self._contributors: set[int] = set()
        self.encrypted_contributors = np.zeros(round_.blocks, dtype=np.int64)  # of each block
        self.cost = Cost() if cost is None else cost

    @property
    def contributors(self) -> tuple[int, ...]:
        """Whose uploads are in the sum."""
        return tuple(sorted(self._contributors))

    def add(self, data: bytes, *, sender: int) -> Upload:
        """Validate one upload and add it; a `Rejected` one leaves the sum as it was.

        Args:
            data: the message.
            sender: who delivered it, as the transport knows it.
        """
        upload = Upload.from_bytes(data, self._round)
        if upload.client != sender:
            raise Rejected(f"client {sender} sent an upload of client {upload.client}")
        if sender in self._contributors:
            raise Rejected(f"client {sender} has contributed already")
        flags, factor, ciphertexts = upload.mask.flags, self._round.factor(sender), upload.ciphertexts
        if self._multiply is not None:
            self._check_room(upload)
        if upload.mask.blocks:
            try:
                if self._multiply is not None:
                    with self.cost.of("multiply", upload.mask.blocks):
                        ciphertexts = self._multiply(ciphertexts, factor)
                with self.cost.of("add", upload.mask.blocks):
                    self._encrypted.add(ciphertexts, np.flatnonzero(flags))
            except InvalidCiphertext as error:
                raise Rejected(f"client {sender}: {error.problem}") from None
        self._plain[~upload.mask.to_array()] += factor * upload.plain
        self._tag_offset = self._tag_offset.plus(upload.tag_offset, times=factor)
        self.encrypted_contributors += flags
        self._contributors.add(sender)
        return upload

    def absorb(self, other: RoundSum) -> None:
        """Add another sum of the same round, of other clients."""
        if self._round != other._round or self._contributors & other._contributors:
            raise Rejected("a sum of another round, or one that has a client in common")
        rows = np.flatnonzero(other.encrypted_contributors)
        if rows.size:
            with self.cost.of("add", rows.size):
                self._encrypted.add(other._encrypted.result(rows), rows)
        self._plain += other._plain
        self._tag_offset = self._tag_offset.plus(other._tag_offset)
        self.encrypted_contributors += other.encrypted_contributors
        self._contributors |= other._contributors

    def close(self) -> Aggregate:
        """The sum over all contributors: of the encrypted values and of the others, apart from each other.

        In a round with factors, plain values are added into the ciphertexts of the same parameters.
        """
        if not self._contributors:
            raise Rejected("no upload arrived")
        size, block = self._round.size, self._round.block
        union = Mask(self.encrypted_contributors > 0, size, block)
        common = Mask(self.encrypted_contributors == len(self._contributors), size, block)
        ciphertexts = np.empty((0, self._round.profile.ciphertext_bytes), dtype=np.uint8)
        if union.blocks:
            with self.cost.of("add", 0):
                ciphertexts = self._encrypted.result(np.flatnonzero(union.flags))
        if self._round.factors is not None:
            ciphertexts, common = self._with_plain(ciphertexts, union, common), union
        plain = wrap(self._plain[~common.to_array()], self._round)
        return Aggregate(self.contributors, union, ciphertexts, common, plain, self._tag_offset)

    def _check_room(self, upload: Upload) -> None:
        """Refuse plain values whose sum, multiplied, might not fit: nothing wraps where nothing is blinded."""
        if not upload.plain.size:
            return
        most = (2 ** (self._round.profile.slot_bits - 1) - 1) // self._round.factor_sum
        if int(upload.plain.max()) > most or int(upload.plain.min()) < -most:
            raise Rejected(f"client {upload.client}: has plain values that are too large to be multiplied")

    def _with_plain(self, ciphertexts: Ciphertexts, union: Mask, common: Mask) -> Ciphertexts:
        """The ciphertexts of the union, with the plain sums of the blocks that only some contributors encrypted."""
        partly = Mask(union.flags & ~common.flags, union.size, union.block)
        if not partly.blocks:
            return ciphertexts
        rows = np.flatnonzero(partly.flags[union.flags])
        with self.cost.of("add_plain", rows.size):
            ciphertexts[rows] = self._public.add_plain(ciphertexts[rows], self._plain[partly.to_array()])
        return ciphertexts
