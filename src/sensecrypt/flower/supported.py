"""The strategies that are correct on sums of updates, and why each other one is refused."""

from __future__ import annotations

from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
    Strategy,
)

from sensecrypt.errors import InvalidInput

_MEANS: tuple[type[Strategy], ...] = (FedAvg, FedAvgM, FedAdam, FedAdagrad, FedYogi, FedProx)
_AROUND = (DifferentialPrivacyClientSideFixedClipping, DifferentialPrivacyClientSideAdaptiveClipping)
_COMPARES = "compares single updates, which no server sees here"
_REFUSED: dict[type[Strategy], tuple[str, str]] = {
    FedMedian: ("takes the median of single updates, which no server sees here", "use FedAvg or FedAdam"),
    FedTrimmedAvg: ("leaves out the extremes of single updates, which no server sees here", "use FedAvg or FedAdam"),
    Bulyan: (_COMPARES, "use FedAvg, and clip= as the bound on what one client can do"),
    MultiKrum: (_COMPARES, "use FedAvg, and clip= as the bound on what one client can do"),
    Krum: (_COMPARES, "use FedAvg, and clip= as the bound on what one client can do"),
    QFedAvg: ("weighs single updates by their own losses and lengths, which no server sees here", "use FedAvg"),
    FedXgbBagging: ("joins trees, which cannot be added", "train a model of arrays"),
    FedXgbCyclic: ("hands one client's trees to the next, and adds nothing", "train a model of arrays"),
    DifferentialPrivacyServerSideFixedClipping: (
        "clips single updates on the server, which sees none here",
        "use DifferentialPrivacyClientSideFixedClipping and fixedclipping_mod",
    ),
    DifferentialPrivacyServerSideAdaptiveClipping: (
        "clips single updates on the server, which sees none here",
        "use DifferentialPrivacyClientSideAdaptiveClipping and adaptiveclipping_mod",
    ),
}


def require_supported(strategy: Strategy, *, trusted: bool) -> Strategy:
    """The innermost strategy; `InvalidInput` with the reason if it is not correct on sums.

    Args:
        strategy: of the app, in a wrapper of Flower's or not.
        trusted: whether to accept an unknown class as one that needs the replies' weighted mean only.
    """
    if not isinstance(strategy, Strategy):
        fix = "pass one of flwr.serverapp.strategy, such as FedAvg()"
        raise InvalidInput("strategy", f"is a {type(strategy).__name__}", fix)
    name = type(strategy).__name__
    for kind, (reason, fix) in _REFUSED.items():
        if isinstance(strategy, kind):
            raise InvalidInput("strategy", f"{name} {reason}", fix)
    if isinstance(strategy, _AROUND):
        return require_supported(strategy.strategy, trusted=trusted)
    if type(strategy) not in _MEANS and not trusted:
        fix = "pass trusted=True if it needs the replies' weighted mean and metrics only"
        raise InvalidInput("strategy", f"{name} is not known to work on sums", fix)
    return strategy
