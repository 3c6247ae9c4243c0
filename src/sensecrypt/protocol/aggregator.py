"""The aggregator: adds uploads as they arrive, and stores only the sum. It has no secret key and cannot import one."""

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
    """The running sum of one cluster's round. Its memory does not depend on the number of clients.

    In a round with factors it is FedAvg as in the paper: every upload is multiplied by its client's factor, which the
    round defines, and plain sums are added to the ciphertexts of the same parameters.
    """

    def __init__(self, round_: Round, public: EncryptionKey, *, cost: Cost | None = None) -> None:
        """Start with an empty sum.

        Args:
            round_: the round.
            public: the run's key; a round with factors needs one whose ciphertexts can be multiplied.
            cost: counts the cryptography; None: a new one.
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
        """The clients whose uploads are in the sum, ascending."""
        return tuple(sorted(self._contributors))

    def add(self, data: bytes, *, sender: int) -> Upload:
        """Validate one upload, add it and return it; an invalid one raises `Rejected` and does not change the sum.

        Args:
            data: the message.
            sender: the client that sent it, as identified by the transport.
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
            raise Rejected("a sum of another round, or one with a client in common")
        rows = np.flatnonzero(other.encrypted_contributors)
        if rows.size:
            with self.cost.of("add", rows.size):
                self._encrypted.add(other._encrypted.result(rows), rows)
        self._plain += other._plain
        self._tag_offset = self._tag_offset.plus(other._tag_offset)
        self.encrypted_contributors += other.encrypted_contributors
        self._contributors |= other._contributors

    def close(self) -> Aggregate:
        """Return the sums over all contributors, encrypted values and plain values separately.

        In a round with factors, plain values are added to the ciphertexts of the same parameters.
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
        """Refuse plain values whose weighted sum might overflow: only blinded values may wrap."""
        if not upload.plain.size:
            return
        most = (2 ** (self._round.profile.slot_bits - 1) - 1) // self._round.factor_sum
        if int(upload.plain.max()) > most or int(upload.plain.min()) < -most:
            raise Rejected(f"client {upload.client}: has plain values that are too large to be multiplied")

    def _with_plain(self, ciphertexts: Ciphertexts, union: Mask, common: Mask) -> Ciphertexts:
        """Return the union's ciphertexts plus the plain sums of the blocks that only some contributors encrypted."""
        partly = Mask(union.flags & ~common.flags, union.size, union.block)
        if not partly.blocks:
            return ciphertexts
        rows = np.flatnonzero(partly.flags[union.flags])
        with self.cost.of("add_plain", rows.size):
            ciphertexts[rows] = self._public.add_plain(ciphertexts[rows], self._plain[partly.to_array()])
        return ciphertexts
