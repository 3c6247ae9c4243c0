"""The two optimisers of the attacks on images: L-BFGS from several starts, and Adam on the sign of the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

Variables = list[torch.Tensor]
Loss = Callable[..., torch.Tensor]  # of as many tensors as there are variables

SOLVED = 1e-12  # stop below this relative squared error: pixels are then right to more than 8 bits
FAILED = 1e-3  # above this error, try another start
PATIENCE, GAIN = 10, 0.01  # stop when the last PATIENCE steps gained less than this share


def best_descent(loss: Loss, start: Callable[[], Variables], *, steps: int, restarts: int) -> tuple[Variables, float]:
    """The best result of descents from one start, and from up to `restarts` others while the loss is above `FAILED`."""
    best, best_value = start(), math.inf
    for attempt in range(restarts + 1):
        found, value = descend(loss, best if attempt == 0 else start(), steps=steps)
        if attempt == 0 or value < best_value:
            best, best_value = found, value
        if best_value <= FAILED:
            break
    return best, best_value


def descend(loss: Loss, start: Variables, *, steps: int) -> tuple[Variables, float]:
    """L-BFGS with step size 1: the best point and its loss, which is infinite if no point had a finite one.

    DLG has no line search: of eight starts on four MNIST images with 3.1 % hidden, two converged. With the strong Wolfe
    conditions all eight did, so experiments measure the protection, not the optimiser. A step is up to 20 iterations,
    as in DLG.
    """
    variables = [part.detach().clone().requires_grad_() for part in start]
    search = torch.optim.LBFGS(
        variables, lr=1, tolerance_grad=1e-9, tolerance_change=1e-13, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        search.zero_grad()
        value = loss(*variables)
        torch.autograd.backward(value)
        return float(value.detach())

    best, values = [part.detach().clone() for part in variables], [math.inf]
    for step in range(steps + 1):
        here = [part.detach().clone() for part in variables]
        value = _step(search, closure) if step < steps else closure()
        if not math.isfinite(value):
            break
        if value < min(values):
            best = here
        values.append(value)
        if value <= SOLVED or (len(values) > PATIENCE + 1 and value > (1 - GAIN) * values[-1 - PATIENCE]):
            break
    return best, min(values)


def _step(search: torch.optim.LBFGS, closure: Callable[[], float]) -> float:
    """Do one step; returns the loss before it."""
    return float(search.step(closure))  # type: ignore[no-untyped-call]  # PyTorch leaves it untyped


def sign_descent(loss: Loss, start: torch.Tensor, *, steps: int) -> torch.Tensor:
    """Adam on the sign of the gradient inside the box [0, 1], by Geiping et al.

    The step size is 0.1, divided by ten after 3/8, 5/8 and 7/8 of the steps. By the sign, all pixels move equally far,
    however little the loss depends on one of them.
    """
    image = start.detach().clone().clamp_(0, 1).requires_grad_()
    search = torch.optim.Adam([image], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(search, [steps * part // 8 for part in (3, 5, 7)], gamma=0.1)
    for _ in range(steps):
        (gradient,) = torch.autograd.grad(loss(image), [image])
        image.grad = torch.nan_to_num(gradient).sign()
        search.step()
        schedule.step()
        with torch.no_grad():
            image.clamp_(0, 1)
    return image.detach()
