"""The configuration of a run: frozen values grouped by subject, read from TOML, with presets beneath.

Every setting is one field here, with its meaning, bounds and preset values; users type its name alone, as names are
unique over all groups. A preset bundles choices that belong together; what is set explicitly goes above it. Unknown
keys are errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sensecrypt import checks
from sensecrypt.algo.clipping import Clip
from sensecrypt.algo.leakage import DEFAULT_BINS, MAX_BINS
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.devices import DEVICES
from sensecrypt.errors import InvalidInput
from sensecrypt.policies import get_policy
from sensecrypt.policies.policy import Policy
from sensecrypt.profiles import DEFAULT_PROFILE, get_profile
from sensecrypt.tomlfile import read_toml, refuse_unknown
from sensecrypt.types import Device

Rows = tuple[tuple[float, ...], ...]
Names = tuple[str, ...]
_TINY, _HUGE = 1e-6, 1e9  # what lies beyond is a typing error, and overflows somewhere
AUTO = "auto"  # in the place of a profile: chosen for the devices when the run begins
_SHOWN = 60  # characters of a value in an error


def setting(default: Any, meaning: str, *, paper: Any = None, **bounds: Any) -> Any:
    """A setting.

    Args:
        default: of preset `default`.
        meaning: one sentence or more.
        paper: the value in preset `paper`; None: the default.
        bounds: of every number, as `checks.number` takes them: `low`, `high`, `open_low`.
    """
    return field(default=default, metadata={"meaning": meaning, "paper": paper, "bounds": bounds})


class Group:
    """Settings of one subject."""

    def __post_init__(self) -> None:
        """Refuse numbers beyond their bounds."""
        kinds = get_type_hints(type(self))
        for each in fields(self):  # type: ignore[arg-type]
            bounds, value = each.metadata["bounds"], getattr(self, each.name)
            if kinds[each.name] is int:
                checks.whole(each.name, value, **bounds)
            elif bounds and value != "auto":
                for number in _numbers(value):
                    checks.number(each.name, number, **bounds)


@dataclass(frozen=True)
class Problem(Group):
    """What is learned, and who holds what."""

    dataset: str = setting("digits", "digits, mnist, fashion-mnist, cifar-10 or cifar-100")
    model: str = setting("", "a name from the model zoo; empty: the usual one for the data set")
    clients: int = setting(20, "number of clients", low=1)
    partition: str = setting("categories:4", "who holds what: iid, categories:4, classes:2, dirichlet:0.5")
    seed: int = setting(
        0, "of partition, initial model and batches; keys and ciphertexts are random whatever it is", low=0
    )


@dataclass(frozen=True)
class Training(Group):
    """What clients do before they encrypt, and what they send of it."""

    rounds: int = setting(10, "number of rounds", low=1)
    local_epochs: int = setting(1, "passes over a client's data per round", low=1)
    batch_size: int = setting(32, "samples per step of local training", low=1)
    learning_rate: float = setting(0.05, "of local training by SGD", low=0.0, high=1e6, open_low=True)
    momentum: float = setting(0.5, "of local training by SGD", low=0.0, high=1.0)
    uploads: Literal["updates", "weights"] = setting(
        "updates",
        "what clients send of their training: `updates` (trained minus start), clipped to a bound that all know, so "
        "that every update fits its slots; or whole `weights`, as the paper has it",
        paper="weights",
    )
    clip: Clip = setting(  # noqa: RUF009 (a field)
        "auto", "bound on an update's L2 norm; `auto`: an eighth of the norm of the initial model", low=_TINY, high=1e6
    )


@dataclass(frozen=True)
class Encryption(Group):
    """How what is encrypted is encrypted, and what becomes of the rest."""

    profile: str = setting(
        DEFAULT_PROFILE,
        "the parameter set of the encryption; `auto`: the one that takes these devices the least time, measured when "
        "the run begins",
        paper="paillier-2048-scalar",
    )
    key_mode: Literal["dkms", "shared-key"] = setting(
        "dkms", "`dkms`: a key server decrypts; `shared-key`: clients do", paper="shared-key"
    )
    crypto: Literal["real", "calibrated"] = setting(
        "real",
        "`real`; or `calibrated`: nothing is encrypted, and what it would have cost is charged; for experiments",
    )
    randomness: Literal["fresh", "ahead"] = setting(
        "fresh", "`fresh`; or `ahead`: made before the round, in a device's idle time"
    )
    weighting: Literal["client", "server"] = setting(
        "client",
        "who multiplies an update by its weight: the `client`, before encryption; or the `server`, ciphertext by "
        "number, as FedAvg is written. That takes slots of 64 bits, for sums are as many times larger as there are "
        "samples, and a rest that is plain. Where nothing is said and these are not given, it is the client",
        paper="server",
    )
    rest: Literal["blinded", "plain"] = setting(
        "blinded",
        "what clients do not encrypt is `blinded`, so that only the key server can read its sum; or `plain`. Where "
        "nothing is said, it is plain with policy plaintext, and where clients share the key",
        paper="plain",
    )

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.blinded and self.key_mode == "shared-key":
            fix = "choose rest plain, or key_mode dkms"
            raise InvalidInput("rest", "cannot be blinded without a key server that unblinds", fix)
        if self.profile == AUTO:
            if self.weighting == "server":
                fix = "choose weighting client, or profile paillier-2048-slot64"
                raise InvalidInput("weighting", "server is not for profile auto", fix)
            return
        profile = get_profile(self.profile)
        if self.key_mode == "shared-key" and profile.forgeries_show_key:
            problem = f"shared-key verifies no sum, and a forged one shows the secret key of {profile.name}"
            raise InvalidInput("key_mode", problem, "choose key_mode dkms, or a paillier profile")
        if self.weighting == "server" and not _server_can_weigh(self.profile, self.rest):
            fix = "choose profile paillier-2048-scalar or paillier-2048-slot64 and rest plain, or weighting client"
            raise InvalidInput("weighting", f"server is not for {profile.name} with rest {self.rest}", fix)
        if self.randomness == "ahead" and not profile.randomness_ahead:
            fix = "choose randomness fresh, or a paillier profile"
            raise InvalidInput("randomness", f"cannot be made ahead for {profile.name}", fix)

    @property
    def blinded(self) -> bool:
        """Whether what clients do not encrypt is hidden from the aggregator, too."""
        return self.rest == "blinded"


@dataclass(frozen=True)
class Selection(Group):
    """Who encrypts what."""

    policy: str = setting("sensecrypt", "the method that chooses what to encrypt")
    ratio: float = setting(0.1, "share of the model that policies without budgets encrypt", low=0.0, high=1.0)
    layout: Literal["prefix", "blocks", "individual"] = setting(
        "prefix",
        "what a client encrypts: a `prefix` of its cluster's secret order; its own most sensitive `blocks`; or its own "
        "most sensitive parameters, each `individual`",
        paper="individual",
    )
    gradient: Literal["start", "trained"] = setting(
        "trained",
        'where sensitivities are computed: at the model that the round starts from (`start`), as "during training" '
        "reads; or at the client's own model after it (`trained`), as Algorithm 2 writes",
        paper="start",
    )
    sensitivity_samples: int = setting(
        512, "samples that a round's sensitivities are computed on; 0: all", paper=0, low=0
    )
    order_refresh: int = setting(
        5, "rounds after which a cluster's order is made anew, unless all its clients encrypt everything", low=1
    )
    objective: Literal["protect", "balance"] = setting(
        "protect",
        "`protect`: encrypt as much as the budget allows; or `balance` cost against protection, as the paper",
        paper="balance",
    )
    normalise: Literal["all", "budget", "feasible"] = setting(
        "all",
        "over which masks the two objectives of `balance` are scaled to [0, 1]: `all` masks; those within the "
        "`budget`; or the `feasible` ones, which meet every constraint",
        paper="budget",
    )
    beta: tuple[float, float] = setting(
        (1.0, 1.0), "weights of cost and protection in `balance`", low=_TINY, high=_HUGE
    )
    B: float = setting(1.3, "in the security floor 1 - C·exp(-B·budget)", low=0.0, high=_HUGE)
    C: float = setting(0.7, "in the security floor 1 - C·exp(-B·budget)", low=0.0, high=1.0)
    max_mi: float = setting(2.0, "bound on the mutual information in bits; negative: none", low=-_HUGE, high=_HUGE)
    bins: int = setting(
        DEFAULT_BINS, "of the histograms that give the mutual information", paper=10, low=1, high=MAX_BINS
    )
    on_infeasible: Literal["error", "budget", "security"] = setting(
        "security",
        "where no mask keeps budget, floor and mutual information: stop with an `error`, keep the `budget`, or keep "
        "the `security`",
        paper="budget",
    )
    always_encrypt: Literal["classifier", "nothing"] = setting(
        "classifier",
        "the `classifier` and parameters that start at zero, whatever their sensitivity; or `nothing`",
        paper="nothing",
    )


@dataclass(frozen=True)
class Budgeting(Group):
    """What a device may encrypt."""

    budget: Literal["paper", "deadline"] = setting(
        "deadline", "by the `paper`, from CPUs and bandwidth; or what keeps the round's `deadline`", paper="paper"
    )
    bandwidth: Literal["declared", "measured"] = setting(
        "declared",
        "what the paper's budgets take a device's bandwidth to be: as `declared`, or as `measured` by the aggregator: "
        "the bytes of a client's first answer, which is for clustering or for the importance order, divided by its "
        "delay, computing included. A run on one machine without such an answer is refused. Budgets by the deadline "
        "use the seconds of each step",
    )
    slack: float = setting(
        0.1, "of the deadline, relative to the slowest client's round without encryption", low=0.0, high=_HUGE
    )
    grace: float = setting(1.0, "of the deadline, in seconds; the longer of both counts", low=0.0, high=_HUGE)


@dataclass(frozen=True)
class Groups(Group):
    """Who trains one model together, and what clients send to find out."""

    clustering: Literal["auto", "ap", "k-means", "none"] = setting(
        "auto", "`auto`; `ap`, Affinity Propagation as the paper has it; `k-means`; or `none` for one model for all"
    )
    clusters: int = setting(0, "of `k-means`; 0: the number with the best silhouette", low=0)
    clustering_gradient: Literal["start", "trained"] = setting(
        "start",
        "where the sensitivities for clustering are computed, before the first round: at the initial model (`start`); "
        "or after one iteration of local training from it (`trained`), as phase 1 of Algorithm 2",
    )
    sensitivities: Literal["sketch", "clear"] = setting(
        "sketch",
        "what clients send for clustering: a keyed `sketch`, or the vector itself in the `clear`",
        paper="clear",
    )
    sensitivity_epsilon: float = setting(
        0.0,
        "ε of the Gaussian noise on what clients send for clustering (Appendix G); 0: no noise. The summary also says "
        "what it is worth as local differential privacy. The encrypted sums that make the importance order carry no "
        "noise: none of them shows one client's",
    )
    sensitivity_delta: float = setting(1e-5, "δ of that noise", low=1e-30, high=0.5)
    sensitivity_clip: float = setting(
        1.0,
        "G, the length that vectors are clipped to before noise is added; absolute. Noise grows with it, so choose "
        "about the length of a usual vector: the MLP's is 0.09 on digits and 0.03 on MNIST at its initial model, a "
        "sample's part 0.17 and 0.06",
        low=_TINY,
        high=1e6,
    )
    sensitivity_noise: Literal["vector", "sample"] = setting(
        "vector",
        "what ε protects: the whole `vector`, as Appendix G is written: N(0, σ²G²) per number; or one `sample` of the "  # noqa: RUF001
        "client's n, each of whose parts w·g is clipped to G: N(0, σ²(2G/n)²) per number",
    )

    def __post_init__(self) -> None:
        """Refuse an ε with which noise would overflow, too."""
        super().__post_init__()
        if self.sensitivity_epsilon != 0:
            checks.number("sensitivity_epsilon", self.sensitivity_epsilon, low=_TINY, high=1.0)


@dataclass(frozen=True)
class Release(Group):
    """Who takes part in a sum, and when it is released."""

    min_contributors: int = setting(  # 3, so that one of them may collude with the aggregator
        3, "uploads without which no sum is decrypted, and clients of every encrypted block", low=1
    )
    quorum: float = setting(
        0.5, "share of a cluster's weight, and of its clients, that must arrive", low=0.0, high=1.0, open_low=True
    )
    sample: float = setting(
        0.0,
        "clients of a cluster that take part in a round: their share, if below 1; else how many; 0: all of them. Never "
        "fewer than `min_contributors`. Drawn by the seed on one machine, at random in fleets",
        low=0.0,
        high=_HUGE,
    )


@dataclass(frozen=True)
class Server(Group):
    """How the mean update of a round moves a cluster's model."""

    server: Literal["fedavg", "fedavgm", "fedadam", "fedyogi"] = setting(
        "fedavg", "the rule: `fedavg`, `fedavgm`, `fedadam` or `fedyogi`"
    )
    server_learning_rate: float = setting(1.0, "of that rule")
    server_momentum: float = setting(0.9, "β₁ of `fedavgm`, `fedadam` and `fedyogi`")
    server_beta2: float = setting(0.99, "β₂ of `fedadam` and `fedyogi`")
    server_tau: float = setting(1e-3, "τ of `fedadam` and `fedyogi`")
    statistics: int = setting(
        0,
        "how many values at the end of the model's vector are no parameters but statistics, such as the running means "
        "of batch normalisation: they are averaged whatever the rule. A run on one machine counts them",
        low=0,
    )

    @property
    def rule(self) -> ServerRule:
        """The rule with its settings."""
        rates = (self.server_learning_rate, self.server_momentum, self.server_beta2, self.server_tau)
        return ServerRule(self.server, *rates, statistics=self.statistics)


@dataclass(frozen=True)
class Machines(Group):
    """Whose devices the run is timed on, and what this machine does."""

    devices: Names = setting(  # noqa: RUF009 (a field)
        tuple(DEVICES),
        f"what clients compute on, assigned in turn: {', '.join(DEVICES)}. Setting `cpus`, `bandwidths` or `ghz` "
        "means machines without a name instead",
        paper=(),
    )
    cpus: Rows = setting(  # noqa: RUF009 (a field)
        ((24, 16, 12, 10, 8),),
        "of machines without a name, assigned in turn; several rows: round by round, the last one stays",
        low=_TINY,
        high=_HUGE,
    )
    bandwidths: Rows = setting(  # noqa: RUF009 (a field)
        ((50, 45, 40, 35, 30),), "of these machines in megabytes per second, likewise", low=_TINY, high=_HUGE
    )
    ghz: Rows = setting(  # noqa: RUF009 (a field)
        ((1.0,),), "clock speed of these machines' processors, likewise", low=_TINY, high=_HUGE
    )
    server_cpus: float = setting(4, "of aggregator and key server", paper=104, low=_TINY, high=_HUGE)
    workers: int = setting(2, "processes that play the clients", low=1)
    messages: Literal["forget", "keep"] = setting(
        "forget",
        "`keep` what each participant knew, clients' weights and the secret order included, in the run's folder, for "
        "attacks on it; or `forget`",
    )

    def __post_init__(self) -> None:
        """Refuse a run without devices, too."""
        for name in ("cpus", "bandwidths", "ghz"):
            rows = getattr(self, name)
            if not rows or not all(rows):
                raise InvalidInput(name, "are empty", "give a number for at least one device")
        for name in self.devices:
            checks.choice("devices", name, tuple(DEVICES))
        super().__post_init__()


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides how a run goes; together with the code it gives the same models again."""

    preset: Literal["default", "paper"] = setting("default", "what holds where nothing else is said")
    problem: Problem = field(default_factory=Problem)
    training: Training = field(default_factory=Training)
    encryption: Encryption = field(default_factory=Encryption)
    selection: Selection = field(default_factory=Selection)
    budgeting: Budgeting = field(default_factory=Budgeting)
    groups: Groups = field(default_factory=Groups)
    release: Release = field(default_factory=Release)
    server: Server = field(default_factory=Server)
    machines: Machines = field(default_factory=Machines)

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        checks.whole("clusters", self.groups.clusters, low=0, high=self.problem.clients)
        if self.server.rule != ServerRule(statistics=self.server.statistics) and self.training.uploads == "weights":
            fix = "set uploads=updates, or leave the server's settings out"
            raise InvalidInput("server", "rules are for updates, and clients upload weights", fix)
        profile = self.encryption.profile
        if self.selection.layout == "individual" and (profile == AUTO or get_profile(profile).slots > 1):
            fix = "choose profile paillier-2048-scalar, or layout blocks or prefix"
            raise InvalidInput("layout", f"individual needs one value a ciphertext, {profile} packs", fix)

    @property
    def policy(self) -> Policy:
        """The policy that `selection.policy` names."""
        return get_policy(self.selection.policy)

    def device(self, client: int, number: int) -> Device:
        """A client's device in that round."""
        names = self.machines.devices
        if names:
            return DEVICES[names[client % len(names)]]
        machines = (self.machines.cpus, self.machines.bandwidths, self.machines.ghz)
        now = [rows[min(max(number, 0), len(rows) - 1)] for rows in machines]
        return Device(*(row[client % len(row)] for row in now))

    def devices(self, number: int) -> list[Device]:
        """Every client's device in that round."""
        return [self.device(client, number) for client in range(self.problem.clients)]

    def device_name(self, client: int, number: int) -> str:
        """What tables call a client's device in that round."""
        names = self.machines.devices
        return names[client % len(names)] if names else f"{self.device(client, number).speed:g} CPUs"


@dataclass(frozen=True)
class Setting:
    """What a user sets by its name.

    Attributes:
        group: attribute of `RunConfig` that it is in; empty: none.
        kind: its type.
        default: in preset `default`.
        paper: in preset `paper`; None: the default.
        meaning: in a sentence or more.
    """

    group: str
    kind: Any
    default: Any
    paper: Any
    meaning: str


def _settings() -> dict[str, Setting]:
    """Every setting by name."""
    found = {}
    kinds = get_type_hints(RunConfig)
    groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if isinstance(kind, type)}
    groups[""] = RunConfig
    for group, kind in groups.items():
        for each in fields(kind):
            if "meaning" in each.metadata:
                known = each.metadata
                hint = get_type_hints(kind)[each.name]
                found[each.name] = Setting(group, hint, each.default, known["paper"], known["meaning"])
    return found


SETTINGS = _settings()
_NUMBERS = {"cpus", "bandwidths", "ghz"}  # of machines without a name
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {key: each.paper for key, each in SETTINGS.items() if each.paper is not None},
}


def make_config(settings: Mapping[str, Any]) -> RunConfig:
    """A configuration from explicit settings above those of their preset.

    Args:
        settings: by key; strings are converted to the key's type.
    """
    refuse_unknown(settings, SETTINGS, "a run's configuration")
    explicit = {key: _convert(key, value, SETTINGS[key].kind) for key, value in settings.items()}
    if _NUMBERS & explicit.keys():
        if explicit.setdefault("devices", ()):
            fix = "give names, or numbers without devices"
            raise InvalidInput("devices", f"are named, and {', '.join(sorted(_NUMBERS & explicit.keys()))} given", fix)
    elif explicit.get("devices") == ():
        raise InvalidInput("devices", "are none", f"name at least one of {', '.join(DEVICES)}, or set cpus")
    defaults = {key: each.default for key, each in SETTINGS.items()}
    values = {**defaults, **PRESETS[explicit.get("preset", "default")], **explicit}
    no_key_server = values["key_mode"] == "shared-key"
    if (no_key_server or not get_policy(values["policy"]).encrypts) and "rest" not in explicit:
        values["rest"] = "plain"
    if values["uploads"] == "weights" and explicit.get("clip", "auto") != "auto":
        raise InvalidInput("clip", "is for updates, and clients upload weights", "set uploads=updates, or leave it out")
    if "weighting" not in explicit and not _server_can_weigh(values["profile"], values["rest"]):
        values["weighting"] = "client"
    hints = {"": RunConfig, **get_type_hints(RunConfig)}
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        grouped.setdefault(SETTINGS[key].group, {})[key] = value
    return RunConfig(**grouped.pop(""), **{name: hints[name](**own) for name, own in grouped.items()})


def read_config(path: Path | None, changes: Mapping[str, Any]) -> RunConfig:
    """A configuration from a TOML file, if any, with `changes` above it."""
    settings: dict[str, Any] = {}
    if path is not None:
        settings = read_toml(path, otherwise="check the path", example="rounds = 10")
    return make_config({**settings, **changes})


def change(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The configuration with these settings changed."""
    kept = to_settings(config)
    if _NUMBERS & settings.keys():
        kept.pop("devices", None)
    elif "devices" in settings:
        kept = {key: value for key, value in kept.items() if key not in _NUMBERS}
    return make_config({**kept, **settings})


def to_settings(config: RunConfig) -> dict[str, Any]:
    """All settings as plain values, for JSON: of devices either names or numbers."""
    found = {}
    left_out = _NUMBERS if config.machines.devices else {"devices"}
    for key, each in SETTINGS.items():
        if key in left_out:
            continue
        value = getattr(getattr(config, each.group) if each.group else config, key)
        found[key] = _plain(value) if isinstance(value, tuple) else value
    return found


def setting_text(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, (list, tuple)):
        rows = any(isinstance(each, (list, tuple)) for each in value)
        return (";" if rows else ",").join(map(setting_text, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _server_can_weigh(profile: str, rest: str) -> bool:
    """Whether the aggregator can multiply what clients send by their sample counts, and add it up."""
    if profile == AUTO:
        return False
    chosen = get_profile(profile)
    return chosen.multiplies and chosen.slot_bits == 64 and rest == "plain"


def _plain(value: tuple[Any, ...]) -> list[Any]:
    return [_plain(each) if isinstance(each, tuple) else each for each in value]


def _convert(key: str, value: Any, kind: Any) -> Any:
    """`value` as the key's type; text comes from the command line."""
    if get_origin(kind) is Literal:
        return checks.choice(key, _cut(str(value)), get_args(kind))
    try:
        if kind == Rows:
            return _rows(value)
        if kind == Names:
            names = value.split(",") if isinstance(value, str) else value
            return tuple(name.strip() for name in names if name.strip())
        if kind == Clip:
            return value if value == "auto" else _number(value)
        if get_origin(kind) is tuple:
            return _pair(value)
        if kind is int and isinstance(value, float) and not value.is_integer():
            raise ValueError("not whole")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("another type")
        return kind(value)
    except (TypeError, ValueError):
        names = {
            Rows: "numbers",
            Names: "names",
            tuple[float, float]: "two numbers",
            int: "a whole number",
            float: "a number",
            Clip: "a number, or auto",
        }
        name = names.get(kind, "text")
        raise InvalidInput(key, f"is {_cut(repr(value))}", f"give {name}") from None


def _rows(value: Any) -> Rows:
    """Numbers by round and device: `"24,16; 24,8"`, a list, or a list of lists."""
    if isinstance(value, str):
        value = [row.split(",") for row in value.split(";")]
    elif not any(isinstance(row, (list, tuple)) for row in value):
        value = [value]
    return tuple(tuple(map(_number, row)) for row in value)


def _pair(value: Any) -> tuple[float, float]:
    """Two numbers: `"1,0.5"`, or a list."""
    first, second = value.split(",") if isinstance(value, str) else value
    return _number(first), _number(second)


def _numbers(value: Any) -> list[Any]:
    """The numbers in a value, a pair, or rows."""
    return [number for each in value for number in _numbers(each)] if isinstance(value, tuple) else [value]


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("another type")
    return float(value)


def _cut(text: str) -> str:
    """In one line, and not longer than a line."""
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
