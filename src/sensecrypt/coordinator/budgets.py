"""The encryption budgets of a round: by the paper's rule, or by the deadline and the times of the last round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from sensecrypt import checks
from sensecrypt.algo.budget import deadline_budgets, encryption_budgets
from sensecrypt.config import RunConfig
from sensecrypt.errors import SenseCryptError
from sensecrypt.profiles import get_profile
from sensecrypt.records import SETUP, ClientRecord, Record, clients_of
from sensecrypt.simulation.clock import Pace, pace


class Budgets:
    """Computes the budget α of every client, round by round."""

    def __init__(
        self,
        config: RunConfig,
        labels: checks.IntVector,
        size: int,
        measured: Mapping[int, float] | None = None,
    ) -> None:
        """Store clusters, model size and bandwidths.

        Args:
            config: the run's configuration.
            labels: the cluster of each client.
            size: number of parameters of the model.
            measured: the bandwidth of each client's first answer, in any unit; used if the run measures bandwidths.
        """
        self._config, self._labels, self._size = config, labels, size
        self._measured = measured if measures_bandwidth(config) else None
        self._profile = get_profile(config.encryption.profile)
        self._block = min(self._profile.slots, size)
        self._blocks = -(-size // self._block)
        self._paces: dict[int, Pace] = {}
        self._block_work: dict[int, float] = {}

    def learn(self, records: Iterable[Record]) -> None:
        """Update how fast clients are, from their last record; for encryption, from the last record that has it."""
        if self._config.budgeting.budget != "deadline":
            return
        for record in clients_of(records):
            if not record.counts:
                continue
            client = record.client
            for seconds, blocks in (
                (record.order_encrypt_seconds, record.order_blocks),
                (record.encrypt_seconds, record.encrypted_blocks),
            ):
                if seconds is not None and blocks:
                    self._block_work[client] = seconds / blocks
            played = record if record.round >= 0 else self._estimated(record)
            if played is not None and client in self._block_work:
                device = self._config.device(client, record.round)
                self._paces[client] = pace(
                    played,
                    device,
                    size=self._size,
                    block=self._block,
                    value_bytes=self._profile.slot_bits // 8,
                    ciphertext_bytes=self._profile.row_bytes(self._block),
                    block_seconds=self._block_work[client],
                )

    def _estimated(self, setup: ClientRecord) -> ClientRecord | None:
        """Return a round estimated from setup: an epoch takes about as long as the gradient over the same samples.

        If clients trained for clustering, a round's training takes as long as that.
        """
        seconds, training = setup.pass_seconds, setup.train_seconds
        if seconds is None:
            return None
        training = self._config.training.local_epochs * seconds if training is None else training
        return replace(setup, train_seconds=training, sensitivity_seconds=seconds)

    def of_round(self, number: int) -> checks.FloatVector:
        """Return α of every client: the paper's budget until times were measured, in setup or in a round.

        Refreshing the order makes a round longer but does not lower budgets: a round in the clear would expose
        everything.
        """
        devices = self._config.devices(number)
        budgets = encryption_budgets(
            self._bandwidths(number), [device.speed for device in devices], clusters=self._labels
        )
        for cluster in range(int(self._labels.max()) + 1):
            members = np.flatnonzero(self._labels == cluster)
            if all(client in self._paces for client in members.tolist()):
                paces = [self._paces[client] for client in members.tolist()]
                budgets[members] = deadline_budgets(
                    [each.plain for each in paces],
                    [each.scoring for each in paces],
                    [each.block for each in paces],
                    blocks=self._blocks,
                    slack=self._config.budgeting.slack,
                    grace=self._config.budgeting.grace,
                )
            if self._config.selection.layout == "prefix":
                # Members encrypt prefixes of the same order, so equal budgets are equal blocks. The largest budgets are
                # lowered to that of rank `min_contributors`, so that at least as many members encrypt every block. A
                # block that one client encrypts can be read by subtraction if the rest is plain; if it is blinded, by a
                # member that makes the block overflow.
                rank = min(self._config.release.min_contributors, members.size)
                budgets[members] = np.minimum(budgets[members], np.sort(budgets[members])[-rank])
        return budgets

    def _bandwidths(self, number: int) -> checks.FloatVector:
        """Return the bandwidths declared for that round, or measured before the first round.

        A client without a measured bandwidth gets the lowest of its cluster.
        """
        declared = np.array([device.bandwidth for device in self._config.devices(number)])
        if self._measured is None:
            return declared
        found = np.ones(declared.size)
        for cluster in range(int(self._labels.max()) + 1):
            members = np.flatnonzero(self._labels == cluster).tolist()
            known = {client: self._measured[client] for client in members if client in self._measured}
            if not known:
                raise SenseCryptError(f"no bandwidth was measured in cluster {cluster}; set bandwidth=declared")
            found[members] = [known.get(client, min(known.values())) for client in members]
        return found


def measures_bandwidth(config: RunConfig) -> bool:
    """Return whether a run's budgets depend on bandwidths that the aggregator measures."""
    return config.budgeting.bandwidth == "measured" and config.policy.uses_budget


def measured_bandwidths(records: Iterable[Record]) -> dict[int, float]:
    """Return each client's bandwidth, from the records of setup."""
    return {
        record.client: record.measured_bandwidth
        for record in clients_of(records)
        if record.round == SETUP and record.measured_bandwidth is not None
    }
