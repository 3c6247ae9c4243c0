"""The configuration of a run: frozen settings grouped by subject, read from TOML, with presets.

Every setting is one field here, with its meaning, bounds and preset values. Names are unique over all groups, so users
write only the name. A preset is a set of matching values; explicit settings override it. Unknown keys are errors.
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
_TINY, _HUGE = 1e-6, 1e9  # values beyond are typing errors, and could overflow
AUTO = "auto"  # instead of a profile: chosen for the devices when the run starts
_SHOWN = 60  # characters of a value that an error shows


def setting(default: Any, meaning: str, *, paper: Any = None, **bounds: Any) -> Any:
    """Return a field of a group.

    Args:
        default: the value in preset `default`.
        meaning: the description that users see.
        paper: the value in preset `paper`; None: the default.
        bounds: the bounds of every number, as arguments of `checks.number`: `low`, `high`, `open_low`.
    """
    return field(default=default, metadata={"meaning": meaning, "paper": paper, "bounds": bounds})


class Group:
    """Settings of one subject."""

    def __post_init__(self) -> None:
        """Refuse numbers outside their bounds."""
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
    """The learning task, and how the data are distributed."""

    dataset: str = setting("digits", "data set: digits, mnist, fashion-mnist, cifar-10 or cifar-100")
    model: str = setting("", "model: a name from the model zoo; empty: the usual one for the data set")
    clients: int = setting(20, "number of clients", low=1)
    partition: str = setting(
        "categories:4", "how samples are distributed over clients: iid, categories:4, classes:2, dirichlet:0.5"
    )
    seed: int = setting(
        0, "seed of partition, initial model and batches; keys and ciphertexts do not depend on it", low=0
    )


@dataclass(frozen=True)
class Training(Group):
    """Local training, and what clients upload."""

    rounds: int = setting(10, "number of rounds", low=1)
    local_epochs: int = setting(1, "epochs of local training per round", low=1)
    batch_size: int = setting(32, "samples per batch of local training", low=1)
    learning_rate: float = setting(0.05, "learning rate of local training", low=0.0, high=1e6, open_low=True)
    momentum: float = setting(0.5, "momentum of local training", low=0.0, high=1.0)
    uploads: Literal["updates", "weights"] = setting(
        "updates",
        "what clients upload: `updates` (trained minus start), clipped to a public bound, so that every update fits "
        "its slots; or whole `weights`, as in the paper",
        paper="weights",
    )
    clip: Clip = setting(  # noqa: RUF009 (a field)
        "auto", "bound on an update's L2 norm; `auto`: an eighth of the norm of the initial model", low=_TINY, high=1e6
    )


@dataclass(frozen=True)
class Encryption(Group):
    """The encryption, and the protection of the parameters that are not encrypted."""

    profile: str = setting(
        DEFAULT_PROFILE,
        "parameter set of the encryption; `auto`: the fastest for the run's devices, measured when the run starts",
        paper="paillier-2048-scalar",
    )
    key_mode: Literal["dkms", "shared-key"] = setting(
        "dkms", "who decrypts: `dkms`: a key server; `shared-key`: the clients", paper="shared-key"
    )
    crypto: Literal["real", "calibrated"] = setting(
        "real",
        "`real` encryption; or `calibrated`: nothing is encrypted, and the measured cost of encryption is added to the "
        "times; for experiments",
    )
    randomness: Literal["fresh", "ahead"] = setting(
        "fresh",
        "when the randomness of ciphertexts is computed: `fresh`: when encrypting; `ahead`: before the round, in idle "
        "time",
    )
    weighting: Literal["client", "server"] = setting(
        "client",
        "who multiplies an update by its weight: the `client`, before encryption; or the `server`, which multiplies "
        "ciphertexts, as in FedAvg. `server` needs slots of 64 bits, because sums grow with the number of samples, and "
        "rest plain. If it is not set and these are not given, it is client",
        paper="server",
    )
    rest: Literal["blinded", "plain"] = setting(
        "blinded",
        "the parameters that clients do not encrypt are `blinded`, so that only the key server can read their sum; or "
        "`plain`. If it is not set, it is plain with policy plaintext and with key_mode shared-key",
        paper="plain",
    )

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if self.blinded and self.key_mode == "shared-key":
            fix = "choose rest plain, or key_mode dkms"
            raise InvalidInput("rest", "cannot be blinded without a key server that unblinds", fix)
        if self.profile == AUTO:
            if self.weighting == "server":
                fix = "choose weighting client, or profile paillier-2048-slot64"
                raise InvalidInput("weighting", "server does not work with profile auto", fix)
            return
        profile = get_profile(self.profile)
        if self.key_mode == "shared-key" and profile.forgeries_show_key:
            problem = f"shared-key verifies no sum, and a forged sum reveals the secret key of {profile.name}"
            raise InvalidInput("key_mode", problem, "choose key_mode dkms, or a paillier profile")
        if self.weighting == "server" and not _server_can_weigh(self.profile, self.rest):
            fix = "choose profile paillier-2048-scalar or paillier-2048-slot64 and rest plain, or weighting client"
            raise InvalidInput("weighting", f"server does not work with {profile.name} and rest {self.rest}", fix)
        if self.randomness == "ahead" and not profile.randomness_ahead:
            fix = "choose randomness fresh, or a paillier profile"
            raise InvalidInput("randomness", f"cannot be computed ahead for {profile.name}", fix)

    @property
    def blinded(self) -> bool:
        """Whether the parameters that clients do not encrypt are blinded."""
        return self.rest == "blinded"


@dataclass(frozen=True)
class Selection(Group):
    """Which parameters are encrypted."""

    policy: str = setting("sensecrypt", "method that selects what to encrypt")
    ratio: float = setting(0.1, "share of the model that policies without budgets encrypt", low=0.0, high=1.0)
    layout: Literal["prefix", "blocks", "individual"] = setting(
        "prefix",
        "what a client encrypts: a `prefix` of its cluster's secret order; its own most sensitive `blocks`; or its own "
        "most sensitive parameters, each `individual`",
        paper="individual",
    )
    gradient: Literal["start", "trained"] = setting(
        "trained",
        "where sensitivities are computed: at the round's start model (`start`), which is how we read the paper's "
        '"during training"; or at the client\'s model after training (`trained`), as in Algorithm 2',
        paper="start",
    )
    sensitivity_samples: int = setting(
        512, "number of samples for a round's sensitivities; 0: all samples", paper=0, low=0
    )
    order_refresh: int = setting(
        5,
        "number of rounds after which a cluster's order is refreshed, unless all its clients encrypt everything",
        low=1,
    )
    objective: Literal["protect", "balance"] = setting(
        "protect",
        "what the selection optimises: `protect` maximises the protected sensitivity; `balance`, the paper's, weighs "
        "cost against protection",
        paper="balance",
    )
    normalise: Literal["all", "budget", "feasible"] = setting(
        "all",
        "over which masks the two objectives of `balance` are scaled to [0, 1]: `all` masks; those within the "
        "`budget`; or the `feasible` masks, which meet every constraint",
        paper="budget",
    )
    beta: tuple[float, float] = setting(
        (1.0, 1.0), "weights of cost and protection in `balance`", low=_TINY, high=_HUGE
    )
    B: float = setting(1.3, "B of the security floor 1 - C·exp(-B·budget)", low=0.0, high=_HUGE)
    C: float = setting(0.7, "C of the security floor 1 - C·exp(-B·budget)", low=0.0, high=1.0)
    max_mi: float = setting(2.0, "bound on the mutual information in bits; negative: none", low=-_HUGE, high=_HUGE)
    bins: int = setting(DEFAULT_BINS, "number of bins of the mutual information", paper=10, low=1, high=MAX_BINS)
    on_infeasible: Literal["error", "budget", "security"] = setting(
        "security",
        "what to do if no mask meets all constraints: stop with an `error`; encrypt what the `budget` allows; or "
        "encrypt what the `security` floor and the leakage bound need",
        paper="budget",
    )
    always_encrypt: Literal["classifier", "nothing"] = setting(
        "classifier",
        "what is encrypted regardless of sensitivity: the `classifier` and parameters that start at zero; or `nothing`",
        paper="nothing",
    )


@dataclass(frozen=True)
class Budgeting(Group):
    """How much a device may encrypt."""

    budget: Literal["paper", "deadline"] = setting(
        "deadline",
        "how budgets are computed: as in the `paper`, from processors and bandwidth; or as what each client can "
        "encrypt before the round's `deadline`",
        paper="paper",
    )
    bandwidth: Literal["declared", "measured"] = setting(
        "declared",
        "the bandwidth in the paper's budgets: as `declared` for the device; or as `measured` by the aggregator: the "
        "bytes of a client's first answer (for clustering or the importance order) divided by its delay, which "
        "includes computing. A run on one machine without such an answer is refused. Budgets by deadline use the "
        "seconds of each step",
    )
    slack: float = setting(
        0.1,
        "time until the deadline beyond the slowest client's round without encryption, as a share of that round",
        low=0.0,
        high=_HUGE,
    )
    grace: float = setting(
        1.0, "the same time in seconds; the larger of `slack` and `grace` applies", low=0.0, high=_HUGE
    )


@dataclass(frozen=True)
class Groups(Group):
    """Which clients train a model together, and what they send for clustering."""

    clustering: Literal["auto", "ap", "k-means", "none"] = setting(
        "auto",
        "method of clustering: `auto`; `ap`, Affinity Propagation as in the paper; `k-means`; or `none`: one model for "
        "all clients",
    )
    clusters: int = setting(0, "number of clusters of `k-means`; 0: the number with the best silhouette", low=0)
    clustering_gradient: Literal["start", "trained"] = setting(
        "start",
        "where the sensitivities for clustering are computed, before the first round: at the initial model (`start`); "
        "or after one iteration of local training from it (`trained`), as in phase 1 of Algorithm 2",
    )
    sensitivities: Literal["sketch", "clear"] = setting(
        "sketch",
        "what clients send for clustering: a keyed `sketch`, or the sensitivities in the `clear`",
        paper="clear",
    )
    sensitivity_epsilon: float = setting(
        0.0,
        "ε of the Gaussian noise on what clients send for clustering (Appendix G); 0: no noise. The summary also shows "
        "the ε of local differential privacy. The encrypted sums for the importance order have no noise: no single "
        "client's sensitivities are decrypted",
    )
    sensitivity_delta: float = setting(1e-5, "δ of that noise", low=1e-30, high=0.5)
    sensitivity_clip: float = setting(
        1.0,
        "G, the L2 norm to which vectors are clipped before noise is added. Noise is proportional to G, so choose "
        "about the norm of a typical vector: at the initial model, the MLP's is 0.09 on digits and 0.03 on MNIST, that "
        "of a single sample 0.17 and 0.06",
        low=_TINY,
        high=1e6,
    )
    sensitivity_noise: Literal["vector", "sample"] = setting(
        "vector",
        "what ε protects: the whole `vector`, as in Appendix G: N(0, σ²G²) per number; or each `sample` of the "  # noqa: RUF001
        "client's n, whose w·g is clipped to G: N(0, σ²(2G/n)²) per number",
    )

    def __post_init__(self) -> None:
        """Also refuse an ε for which the noise would overflow."""
        super().__post_init__()
        if self.sensitivity_epsilon != 0:
            checks.number("sensitivity_epsilon", self.sensitivity_epsilon, low=_TINY, high=1.0)


@dataclass(frozen=True)
class Release(Group):
    """Which clients take part in a sum, and when it is released."""

    min_contributors: int = setting(  # 3, so that one of them may collude with the aggregator
        3, "smallest number of uploads in a released sum, and of clients per encrypted block", low=1
    )
    quorum: float = setting(
        0.5,
        "share of a cluster's weight, and of its clients, whose uploads must arrive",
        low=0.0,
        high=1.0,
        open_low=True,
    )
    sample: float = setting(
        0.0,
        "clients of a cluster that take part in a round: a share if below 1, else a number; 0: all clients. Never "
        "fewer than `min_contributors`. Chosen by the seed on one machine, by the operating system's randomness in "
        "fleets",
        low=0.0,
        high=_HUGE,
    )


@dataclass(frozen=True)
class Server(Group):
    """How a cluster's model is updated with the mean update of a round."""

    server: Literal["fedavg", "fedavgm", "fedadam", "fedyogi"] = setting(
        "fedavg", "rule of the server update: `fedavg`, `fedavgm`, `fedadam` or `fedyogi`"
    )
    server_learning_rate: float = setting(1.0, "learning rate of that rule")
    server_momentum: float = setting(0.9, "β₁ of `fedavgm`, `fedadam` and `fedyogi`")
    server_beta2: float = setting(0.99, "β₂ of `fedadam` and `fedyogi`")
    server_tau: float = setting(1e-3, "τ of `fedadam` and `fedyogi`")
    statistics: int = setting(
        0,
        "number of values at the end of the model's vector that are statistics, such as the running means of batch "
        "normalisation; every rule averages them. A run on one machine determines the number itself",
        low=0,
    )

    @property
    def rule(self) -> ServerRule:
        """The rule with its settings."""
        rates = (self.server_learning_rate, self.server_momentum, self.server_beta2, self.server_tau)
        return ServerRule(self.server, *rates, statistics=self.statistics)


@dataclass(frozen=True)
class Machines(Group):
    """The devices of the device clock, and the processes on this machine."""

    devices: Names = setting(  # noqa: RUF009 (a field)
        tuple(DEVICES),
        f"devices of the clients, assigned in turn: {', '.join(DEVICES)}. Setting `cpus`, `bandwidths` or `ghz` "
        "defines unnamed devices instead",
        paper=(),
    )
    cpus: Rows = setting(  # noqa: RUF009 (a field)
        ((24, 16, 12, 10, 8),),
        "processors of unnamed devices, assigned in turn; several rows: one per round, the last row for all later ones",
        low=_TINY,
        high=_HUGE,
    )
    bandwidths: Rows = setting(  # noqa: RUF009 (a field)
        ((50, 45, 40, 35, 30),),
        "megabytes per second of unnamed devices, in the form of `cpus`",
        low=_TINY,
        high=_HUGE,
    )
    ghz: Rows = setting(  # noqa: RUF009 (a field)
        ((1.0,),), "clock speed of unnamed devices, in the form of `cpus`", low=_TINY, high=_HUGE
    )
    server_cpus: float = setting(4, "processors of aggregator and key server", paper=104, low=_TINY, high=_HUGE)
    workers: int = setting(2, "number of processes that run the clients", low=1)
    messages: Literal["forget", "keep"] = setting(
        "forget",
        "`keep` what each participant knows in the run's folder, including clients' weights and the secret order, for "
        "attacks; or `forget` it",
    )

    def __post_init__(self) -> None:
        """Also refuse a run without devices."""
        for name in ("cpus", "bandwidths", "ghz"):
            rows = getattr(self, name)
            if not rows or not all(rows):
                raise InvalidInput(name, "is empty", "give a number for at least one device")
        for name in self.devices:
            checks.choice("devices", name, tuple(DEVICES))
        super().__post_init__()


@dataclass(frozen=True)
class RunConfig:
    """All settings of a run; the same settings and code give the same models."""

    preset: Literal["default", "paper"] = setting("default", "values of the settings that are not given")
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
        """Refuse settings that contradict each other."""
        checks.whole("clusters", self.groups.clusters, low=0, high=self.problem.clients)
        if self.server.rule != ServerRule(statistics=self.server.statistics) and self.training.uploads == "weights":
            fix = "set uploads=updates, or leave the server's settings out"
            raise InvalidInput("server", "rules apply to updates, but clients upload weights", fix)
        profile = self.encryption.profile
        if self.selection.layout == "individual" and (profile == AUTO or get_profile(profile).slots > 1):
            fix = "choose profile paillier-2048-scalar, or layout blocks or prefix"
            raise InvalidInput("layout", f"individual needs one value per ciphertext, but {profile} packs several", fix)

    @property
    def policy(self) -> Policy:
        """The policy that `selection.policy` names."""
        return get_policy(self.selection.policy)

    def device(self, client: int, number: int) -> Device:
        """Return a client's device in round `number`."""
        names = self.machines.devices
        if names:
            return DEVICES[names[client % len(names)]]
        machines = (self.machines.cpus, self.machines.bandwidths, self.machines.ghz)
        now = [rows[min(max(number, 0), len(rows) - 1)] for rows in machines]
        return Device(*(row[client % len(row)] for row in now))

    def devices(self, number: int) -> list[Device]:
        """Return every client's device in round `number`."""
        return [self.device(client, number) for client in range(self.problem.clients)]

    def device_name(self, client: int, number: int) -> str:
        """Return the name of a client's device in tables."""
        names = self.machines.devices
        return names[client % len(names)] if names else f"{self.device(client, number).speed:g} CPUs"


@dataclass(frozen=True)
class Setting:
    """The description of a setting.

    Attributes:
        group: the attribute of `RunConfig` that contains it; empty: `RunConfig` itself.
        kind: its type.
        default: the value in preset `default`.
        paper: the value in preset `paper`; None: the default.
        meaning: the description that users see.
    """

    group: str
    kind: Any
    default: Any
    paper: Any
    meaning: str


def _settings() -> dict[str, Setting]:
    """Return every setting by name."""
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
_NUMBERS = {"cpus", "bandwidths", "ghz"}  # of unnamed devices
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {key: each.paper for key, each in SETTINGS.items() if each.paper is not None},
}


def make_config(settings: Mapping[str, Any]) -> RunConfig:
    """Return a configuration of explicit settings; their preset gives the others.

    Args:
        settings: values by key; strings are converted to the key's type.
    """
    refuse_unknown(settings, SETTINGS, "a run's configuration")
    explicit = {key: _convert(key, value, SETTINGS[key].kind) for key, value in settings.items()}
    if _NUMBERS & explicit.keys():
        if explicit.setdefault("devices", ()):
            problem = f"cannot be set together with {', '.join(sorted(_NUMBERS & explicit.keys()))}"
            raise InvalidInput("devices", problem, "leave one of them out")
    elif explicit.get("devices") == ():
        raise InvalidInput("devices", "is empty", f"name at least one of {', '.join(DEVICES)}, or set cpus")
    defaults = {key: each.default for key, each in SETTINGS.items()}
    values = {**defaults, **PRESETS[explicit.get("preset", "default")], **explicit}
    no_key_server = values["key_mode"] == "shared-key"
    if (no_key_server or not get_policy(values["policy"]).encrypts) and "rest" not in explicit:
        values["rest"] = "plain"
    if values["uploads"] == "weights" and explicit.get("clip", "auto") != "auto":
        fix = "set uploads=updates, or leave clip out"
        raise InvalidInput("clip", "applies to updates, but clients upload weights", fix)
    if "weighting" not in explicit and not _server_can_weigh(values["profile"], values["rest"]):
        values["weighting"] = "client"
    hints = {"": RunConfig, **get_type_hints(RunConfig)}
    grouped: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        grouped.setdefault(SETTINGS[key].group, {})[key] = value
    return RunConfig(**grouped.pop(""), **{name: hints[name](**own) for name, own in grouped.items()})


def read_config(path: Path | None, changes: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of a TOML file, if given, with `changes` applied."""
    settings: dict[str, Any] = {}
    if path is not None:
        settings = read_toml(path, otherwise="check the path", example="rounds = 10")
    return make_config({**settings, **changes})


def change(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """Return the configuration with these settings changed."""
    kept = to_settings(config)
    if _NUMBERS & settings.keys():
        kept.pop("devices", None)
    elif "devices" in settings:
        kept = {key: value for key, value in kept.items() if key not in _NUMBERS}
    return make_config({**kept, **settings})


def to_settings(config: RunConfig) -> dict[str, Any]:
    """Return all settings as plain values, for JSON; for devices either names or numbers."""
    found = {}
    left_out = _NUMBERS if config.machines.devices else {"devices"}
    for key, each in SETTINGS.items():
        if key in left_out:
            continue
        value = getattr(getattr(config, each.group) if each.group else config, key)
        found[key] = _plain(value) if isinstance(value, tuple) else value
    return found


def setting_text(value: Any) -> str:
    """Return a value in the form of the option `--set`."""
    if isinstance(value, (list, tuple)):
        rows = any(isinstance(each, (list, tuple)) for each in value)
        return (";" if rows else ",").join(map(setting_text, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _server_can_weigh(profile: str, rest: str) -> bool:
    """Return whether the aggregator can multiply uploads by sample counts and add them."""
    if profile == AUTO:
        return False
    chosen = get_profile(profile)
    return chosen.multiplies and chosen.slot_bits == 64 and rest == "plain"


def _plain(value: tuple[Any, ...]) -> list[Any]:
    return [_plain(each) if isinstance(each, tuple) else each for each in value]


def _convert(key: str, value: Any, kind: Any) -> Any:
    """Return `value` as the key's type; text comes from the command line."""
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
            raise ValueError("not a whole number")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("wrong type")
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
    """Return numbers by round and device, from `"24,16; 24,8"`, a list, or a list of lists."""
    if isinstance(value, str):
        value = [row.split(",") for row in value.split(";")]
    elif not any(isinstance(row, (list, tuple)) for row in value):
        value = [value]
    return tuple(tuple(map(_number, row)) for row in value)


def _pair(value: Any) -> tuple[float, float]:
    """Return two numbers, from `"1,0.5"` or a list."""
    first, second = value.split(",") if isinstance(value, str) else value
    return _number(first), _number(second)


def _numbers(value: Any) -> list[Any]:
    """Return the numbers in a number, a pair, or rows."""
    return [number for each in value for number in _numbers(each)] if isinstance(value, tuple) else [value]


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("wrong type")
    return float(value)


def _cut(text: str) -> str:
    """Return the text on one line, cut to a readable length."""
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
