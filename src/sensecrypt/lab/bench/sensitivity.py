"""`sensecrypt bench sensitivity`: the cost of each method's sensitivity (paper, "Comparison with FedML-HE")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import nn

from sensecrypt import checks
from sensecrypt.algo.sensitivity import sensitivity
from sensecrypt.client.jacobian import jacobian_as_published, jacobian_map
from sensecrypt.client.training import warm_up
from sensecrypt.lab.bench.measure import in_own_process, median_seconds, peak_mb
from sensecrypt.lab.bench.table import Report, Row, Shown, described
from sensecrypt.models import build_model, get_vector, mean_gradient, parameter_count
from sensecrypt.policies.maskcrypt import score

PAPER_SAMPLES = 200
PAPER_SECONDS = {"mlp": 17214.75, "alexnet": 42823.79}  # of FedML-HE, on five threads
SHAPES = {"mlp": (1, 28, 28), "alexnet": (3, 32, 32)}
HANDFUL = 200  # timed backward passes of the published loop


def run(models: Sequence[str], *, samples: int, repeats: int, seed: int, on_step: Callable[[str], None]) -> Report:
    """Time every measure of sensitivity on every model, on one core.

    A row is `extrapolated` if only `timed_passes` were timed. `map_mb` is the memory of our FedML-HE map.
    """
    torch.set_num_threads(1)
    warm_up()
    measured = [_measure(name, samples, repeats, seed, on_step) for name in models]
    return {"repeats": repeats, "timed_passes": HANDFUL, "models": measured}


def shown(report: Report) -> Iterator[Shown]:
    """One table per model, and what is extrapolated."""
    for measured in report["models"]:
        yield described(
            "Sensitivity of {parameters:,} parameters ({model}) on {samples:,} samples, gradients included, one core "
            "(medians of {repeats}, seconds)".format(**measured, repeats=report["repeats"]),
            [("method", "method"), ("paper", "paper_seconds:,.0f"), ("here", _here)],
            measured["rows"],
        )
        yield (
            f"Extrapolated: {report['timed_passes']} of {measured['parameters'] * measured['samples']:,} backward "
            f"passes were timed. Our map of FedML-HE's measure needs {measured['map_mb']:.0f} MB."
        )


def _here(row: Row) -> str:
    return f"about {row['seconds']:,.0f}, extrapolated" if row["extrapolated"] else f"{row['seconds']:.4f}"


def _measure(name: str, samples: int, repeats: int, seed: int, on_step: Callable[[str], None]) -> Row:
    model, images, labels = _instance(name, samples, seed)
    weights = get_vector(model)
    exposed = get_vector(build_model(name, seed=seed + 1))
    paper = PAPER_SECONDS[name] if samples == PAPER_SAMPLES else None
    timed: dict[str, Callable[[], object]] = {
        "FedML-HE, forward over backward pass": partial(jacobian_map, model, images, labels),
        "SenseCrypt, |w·g|": lambda: sensitivity(weights, mean_gradient(model, images, labels)),
        "MaskCrypt, (w_exp - w)·g": lambda: score(exposed, weights, mean_gradient(model, images, labels)),
    }
    on_step(f"{name}: FedML-HE's loop as published, {HANDFUL} passes of it")
    published = samples * published_seconds(model, images[0], labels[0], repeats=repeats)
    first = {"method": "FedML-HE, as published", "seconds": published, "extrapolated": True, "paper_seconds": paper}
    rows: list[Row] = [first]
    for method, call in timed.items():
        on_step(f"{name}: {method}")
        seconds = median_seconds(call, repeats=repeats)
        rows.append({"method": method, "seconds": seconds, "extrapolated": False, "paper_seconds": None})
    on_step(f"{name}: memory")
    grown = in_own_process(_map_memory, name, samples, seed).result
    return {"model": name, "parameters": weights.size, "samples": samples, "rows": rows, "map_mb": grown}


def published_seconds(model: nn.Module, sample: torch.Tensor, label: torch.Tensor, *, repeats: int) -> float:
    """Seconds of the published loop for one sample: one pass for the graph, then one per parameter.

    Timed on parameters spread evenly over the model, since a pass to an early layer takes longer, and multiplied.
    """
    count = parameter_count(model)
    handful = np.linspace(0, count - 1, HANDFUL).astype(np.int64)
    none = np.empty(0, dtype=np.int64)

    def seconds(parameters: checks.IntVector) -> float:
        return median_seconds(partial(jacobian_as_published, model, sample, label, parameters), repeats=repeats)

    graph = seconds(none)
    return graph + max(0.0, seconds(handful) - graph) / HANDFUL * count


def _instance(name: str, samples: int, seed: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A new network and noise: the time does not depend on the values."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.random((samples, *SHAPES[name]), dtype=np.float32))
    return build_model(name, seed=seed), images, torch.from_numpy(rng.integers(0, 10, samples))


def _map_memory(name: str, samples: int, seed: int) -> tuple[float, float]:
    torch.set_num_threads(1)
    model, images, labels = _instance(name, samples, seed)
    jacobian_map(model, images[:1], labels[:1])  # loads parts of PyTorch
    before = peak_mb()
    jacobian_map(model, images, labels)
    return 0.0, peak_mb() - before
