"""The conditions under which a client of a fleet takes part in a run, from its own identity file.

layouts = ["prefix"]           # layouts that it accepts; with "blocks" and "individual" it uploads its own mask
sketches = true                # whether it sends a sketch of its sensitivities if a run clusters clients
proposals = false              # whether it proposes blocks to encrypt, as in MaskCrypt: they reveal its classes
uploads = "updates"            # what it uploads; "weights": its whole model, if the run requests it
largest_clip = "auto"          # bound on its updates: an eighth of the initial model's norm; or a number
largest_step = 1.0             # largest move of the model per round, over that bound; FedAvgM needs 10, FedAdam more
batches = "local"              # its training uses this machine's randomness; "seeded": the run's public seed
least_members = 3              # smallest size of its cluster
least_contributors = 3         # smallest number of clients in a sum that the key service releases
fixed_groups = false           # true: the key service must release only sums of fixed groups
colluders = 1                  # members that may disclose their values to the aggregator
largest_share = 0.7            # its largest share of a sum without the `colluders` largest others; below 1, its share
                               # of the sum of squared weights is at most 0.9
largest_ratio = 20             # largest ratio of its weight to the smallest of its cluster
learning_rate = [1e-6, 1.0]    # lowest and highest
batch_size = [8, 1024]
local_epochs = [1, 10]

A run that does not meet them gets nothing from this client: no training, no scores, no sketch. Conditions are checked
when a message arrives, before the client's data are loaded, and for each round before it starts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sensecrypt import checks
from sensecrypt.algo.clipping import Clip
from sensecrypt.config import RunConfig, to_settings
from sensecrypt.errors import InvalidInput, Rejected
from sensecrypt.protocol.releaserules import LARGEST_SQUARE, honest_share, honest_square
from sensecrypt.protocol.round import Round

OUTSIDE = "outside-conditions"
_LAYOUTS = ("prefix", "blocks", "individual")
_RANGES = ("learning_rate", "batch_size", "local_epochs")
_FLAGS = ("sketches", "proposals", "fixed_groups")
_ROUNDING = 1e-9
_UNIT = 1.0  # a bound of 1, with which a server rule's `reach` is a multiple of the bound
_LOG = logging.getLogger("sensecrypt.fleet")


@dataclass(frozen=True)
class Conditions:
    """One client's conditions; the module's docstring lists them."""

    layouts: tuple[str, ...] = ("prefix",)
    sketches: bool = True
    proposals: bool = False
    uploads: str = "updates"
    largest_clip: Clip = "auto"
    largest_step: float = 1.0
    batches: str = "local"
    least_members: int = 3
    least_contributors: int = 3
    fixed_groups: bool = False
    colluders: int = 1
    largest_share: float = 0.7
    largest_ratio: float = 20.0
    learning_rate: tuple[float, float] = (1e-6, 1.0)
    batch_size: tuple[float, float] = (8, 1024)
    local_epochs: tuple[float, float] = (1, 10)

    def __post_init__(self) -> None:
        """Refuse invalid values, and conditions that contradict each other."""
        if not self.layouts:
            raise InvalidInput("layouts", "is empty, so that no run is allowed", 'write a list such as ["prefix"]')
        for layout in self.layouts:
            checks.choice("layouts", layout, _LAYOUTS)
        checks.choice("uploads", self.uploads, ("updates", "weights"))
        checks.choice("batches", self.batches, ("local", "seeded"))
        if self.largest_clip != "auto":
            checks.number("largest_clip", self.largest_clip, low=0.0, open_low=True)
        checks.number("largest_step", self.largest_step, low=0.0, open_low=True)
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(name, f"is {getattr(self, name)!r}", "write true or false")
        checks.whole("least_members", self.least_members, low=2)
        checks.whole("least_contributors", self.least_contributors, low=2)
        checks.whole("colluders", self.colluders, low=0)
        checks.number("largest_share", self.largest_share, low=0.0, high=1.0, open_low=True)
        checks.number("largest_ratio", self.largest_ratio, low=1.0)
        for name in _RANGES:
            low, high = getattr(self, name)
            if low > high:
                raise InvalidInput(name, f"is from {low:g} to {high:g}, which is empty", "write the lower number first")
        if self.least_contributors < self.colluders + 2:
            problem = f"is {self.least_contributors}, but {self.colluders} may collude, which isolates a client"
            raise InvalidInput("least_contributors", problem, f"write at least {self.colluders + 2}")

    def require_run(self, config: RunConfig, described: Mapping[str, Any]) -> None:
        """Raise `Rejected` for the first condition that a run does not meet.

        Args:
            config: the run's settings.
            described: the key service's description of the run.
        """
        if config.selection.layout not in self.layouts:
            _refuse("layouts", config.selection.layout, f"allows {', '.join(self.layouts)}")
        if config.groups.clustering != "none" and not self.sketches:
            _refuse("sketches", f"clustering {config.groups.clustering}", "sends no sketch")
        if config.policy.propose is not None and not self.proposals:
            _refuse("proposals", f"policy {config.selection.policy}", "proposes no blocks")
        if config.training.uploads == "weights" and self.uploads != "weights":
            _refuse("uploads", "weights", "allows updates")
        if config.training.uploads == "updates":
            self._require_bounded(config)
        for name in _RANGES:
            asked, (low, high) = to_settings(config)[name], getattr(self, name)
            if not low <= asked <= high:
                _refuse(name, f"{asked:g}", f"allows {low:g} to {high:g}")
        if described["min_contributors"] < self.least_contributors:
            _refuse(
                "least_contributors", f"{described['min_contributors']} in a sum", f"requires {self.least_contributors}"
            )
        if self.fixed_groups and not described.get("fixed_groups", False):
            _refuse("fixed_groups", "sums of any groups", "requires fixed groups")

    def _require_bounded(self, config: RunConfig) -> None:
        """Raise unless this client's own bounds on updates and steps hold; a hostile run sets its own bounds freely."""
        if config.training.clip != "auto" and (self.largest_clip == "auto" or config.training.clip > self.largest_clip):
            own = "auto" if self.largest_clip == "auto" else f"auto, or up to {self.largest_clip:g}"
            _refuse("largest_clip", f"{config.training.clip:g}", f"allows {own}")
        step = config.server.rule.reach(_UNIT)
        if step > self.largest_step * (1 + _ROUNDING):
            asked = f"{config.server.server} with steps of up to {step:g} bounds"
            _refuse("largest_step", asked, f"allows {self.largest_step:g}")

    def require_round(self, round_: Round, client: int) -> None:
        """Raise `Rejected` for the first condition that a round of the key service does not meet."""
        members, weights = len(round_.weights), round_.weights
        if members < self.least_members:
            _refuse("least_members", f"a cluster of {members}", f"requires {self.least_members}")
        share = honest_share(weights, client, self.colluders)
        if share > self.largest_share + _ROUNDING:
            without = f"{share:.1%} of the sum without the {self.colluders} largest others"
            _refuse("largest_share", without, f"allows {self.largest_share:.0%}")
        square = honest_square(weights, client, self.colluders)
        if self.colluders and self.largest_share < 1 and square > LARGEST_SQUARE + _ROUNDING:
            asked = f"{square:.1%} of the sum of squares without the {self.colluders} largest others"
            _refuse("largest_share", asked, f"allows {LARGEST_SQUARE:.0%}: small updates do not hide a large one")
        ratio = weights[client] / min(weights.values())
        if ratio > self.largest_ratio * (1 + _ROUNDING):
            _refuse("largest_ratio", f"{ratio:.0f} times the smallest weight", f"allows {self.largest_ratio:g}")


KEYS = tuple(field.name for field in fields(Conditions))


def read_conditions(settings: Mapping[str, Any]) -> Conditions:
    """Return the conditions in the settings of an identity file; missing ones have their defaults."""
    given = {key: settings[key] for key in KEYS if key in settings}
    if "layouts" in given:
        if not isinstance(given["layouts"], list):
            raise InvalidInput("layouts", "is not a list", 'write a list such as ["prefix"]')
        given["layouts"] = tuple(given["layouts"])
    for name in _RANGES:
        if name in given:
            pair = given[name]
            if not isinstance(pair, list) or len(pair) != 2:
                raise InvalidInput(name, "is not a pair", "write the lowest and the highest, such as [1, 10]")
            given[name] = tuple(checks.number(name, each, low=0.0) for each in pair)
    return Conditions(**given)


def _refuse(condition: str, asked: str, own: str) -> None:
    """Log and raise that a condition is not met; the reason depends only on settings, not on data."""
    reason = f"condition {condition}: the run asks for {asked}, this client {own}"
    _LOG.warning("nothing is sent; %s", reason)
    raise Rejected(reason, code=OUTSIDE)
