"""The runs that are compared: each setting that decides a model, a mask or a message's length is in at least one.

Everything is small, and budgets never follow from measured time: they are the paper's, or those of a deadline on
devices whose transfers take hours, so that the milliseconds of work that were measured vanish in rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

_SMALL: dict[str, Any] = {
    "dataset": "digits",
    "clients": 5,
    "partition": "iid",
    "clustering": "none",
    "rounds": 2,
    "profile": "insecure-test",
    "min_contributors": 2,
    "workers": 1,
    "budget": "paper",
}
_TWO_CLUSTERS: dict[str, Any] = {"clients": 6, "partition": "categories:2", "clustering": "auto"}
_SLOW_NETWORK: dict[str, Any] = {
    "budget": "deadline",
    "slack": 0.4,
    "grace": 0,
    "cpus": "1e6",
    "bandwidths": "4e-6,3e-6,2e-6",
}
# Samples differ by a factor of 23. The key service allows weights that differ by 20, so a fleet's models are others.
_UNEVEN: dict[str, Any] = {"partition": "dirichlet:0.1", "seed": 2, "cpus": "24,8; 4,16", "ghz": "1,2.5", "rounds": 3}
_SHARED_KEY: dict[str, Any] = {"key_mode": "shared-key"}
_SERVER_WEIGHS: dict[str, Any] = {"profile": "paillier-2048-slot64", "rest": "plain", "weighting": "server"}
_CALIBRATED_SCALAR: dict[str, Any] = {"profile": "paillier-2048-scalar", "layout": "individual", "crypto": "calibrated"}


@dataclass(frozen=True)
class Configuration:
    """One run.

    Attributes:
        name: its key in golden.json.
        settings: of the run.
        where: it is played.
        lost: rounds and clients whose upload does not arrive.
    """

    name: str
    settings: dict[str, Any]
    where: Literal["one machine", "fleet"] = "one machine"
    lost: frozenset[tuple[int, int]] = field(default=frozenset())


def _local(name: str, *, lost: frozenset[tuple[int, int]] = frozenset(), **settings: Any) -> Configuration:
    return Configuration(name, {**_SMALL, **settings}, lost=lost)


def _fleet(name: str, *, lost: frozenset[tuple[int, int]] = frozenset(), **settings: Any) -> Configuration:
    return Configuration(f"fleet-{name}", {**_SMALL, **settings}, "fleet", lost)


CONFIGURATIONS = (
    _local("sensecrypt-prefix", rounds=3, order_refresh=2, seed=1),
    _local("sensecrypt-prefix-two-clusters", **_TWO_CLUSTERS, order_refresh=1, workers=2),
    _local("sensecrypt-prefix-deadline", **_SLOW_NETWORK),
    _local("sensecrypt-prefix-uneven", **_UNEVEN),
    _local("sensecrypt-prefix-lost-upload", lost=frozenset({(1, 3)}), rounds=3),
    _local("sensecrypt-blocks-plain-weights", layout="blocks", rest="plain", uploads="weights", max_mi=-1),
    _local("sensecrypt-blocks-balance", **_TWO_CLUSTERS, layout="blocks", objective="balance", beta=[1, 0.5]),
    _local("sensecrypt-paper-preset", preset="paper", **_CALIBRATED_SCALAR, clients=8),
    _local("sensecrypt-paper-clusters", preset="paper", **_TWO_CLUSTERS, **_CALIBRATED_SCALAR, rounds=3),
    _local("sensecrypt-k-means", **{**_TWO_CLUSTERS, "clustering": "k-means", "clusters": 3}, min_contributors=1),
    _local("plaintext", policy="plaintext", momentum=0, batch_size=16),
    _local("plaintext-blinded", policy="plaintext", rest="blinded", local_epochs=2),
    _local("plaintext-weights", policy="plaintext", uploads="weights", profile="paillier-2048-slot16", **_SHARED_KEY),
    _local("full-slot16", policy="full", profile="paillier-2048-slot16", clip=2),  # a smaller bound has no format
    _local("full-packed", policy="full", profile="paillier-2048", rounds=1),
    _local("sensecrypt-ckks", profile="ckks-8192"),
    _local("maskcrypt-server-weighs", policy="maskcrypt", layout="blocks", **_SERVER_WEIGHS, rounds=3),
    _local("maskcrypt-union", policy="maskcrypt_union", **_CALIBRATED_SCALAR, rest="plain", rounds=3),
    _local("maskcrypt-union-shared-key", policy="maskcrypt_union", layout="blocks", ratio=0.2, **_SHARED_KEY),
    _local("fedml-he-blocks", policy="fedml_he", layout="blocks", ratio=0.3),
    _local("fedml-he-prefix-shared-key", policy="fedml_he", **_SHARED_KEY, ratio=0.3, uploads="weights"),
    _local("random-prefix", policy="random", ratio=0.25),
    _local("random-scalar", policy="random", layout="individual", profile="paillier-2048-scalar", ratio=0.01, rounds=1),
    _local("high-sensitivity-prefix", policy="high_sensitivity", randomness="ahead", gradient="start"),
    _local("high-sensitivity-server-weighs", policy="high_sensitivity", layout="blocks", **_SERVER_WEIGHS),
    _local("low-sensitivity-calibrated", policy="low_sensitivity", crypto="calibrated", profile="paillier-2048"),
    _fleet("sensecrypt-refresh", rounds=3, order_refresh=2, seed=1),
    _fleet("sensecrypt-two-clusters", **_TWO_CLUSTERS, order_refresh=1),
    _fleet("sensecrypt-uneven", **_UNEVEN),
    _fleet("sensecrypt-deadline", **_SLOW_NETWORK),
    _fleet("sensecrypt-lost-upload", lost=frozenset({(1, 3)}), rounds=3),
    _fleet("sensecrypt-blocks-weights", layout="blocks", uploads="weights", rest="plain", max_mi=-1),
    _fleet("plaintext", policy="plaintext", rest="blinded"),
)
