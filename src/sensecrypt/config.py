"""The configuration of a run: a frozen value, read from TOML, with presets beneath it.

A preset bundles the choices that belong together; whatever is said explicitly goes above it. Unknown keys are errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sensecrypt import checks
from sensecrypt.algo.clipping import Clip
from sensecrypt.algo.leakage import DEFAULT_BINS, MAX_BINS
from sensecrypt.algo.serverupdates import ServerRule
from sensecrypt.errors import InvalidInput
from sensecrypt.profiles import get_profile
from sensecrypt.tomlfile import read_toml, refuse_unknown
from sensecrypt.types import Device

Rows = tuple[tuple[float, ...], ...]
_TINY, _HUGE = 1e-6, 1e9  # what lies beyond is a slip of the pen, and overflows somewhere
_SHOWN = 60  # characters of a value in an error

PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "layout": "prefix",
        "profile": "paillier-2048",
        "objective": "protect",
        "normalise": "all",
        "gradient": "trained",
        "bins": DEFAULT_BINS,
        "budget": "deadline",
        "on_infeasible": "security",
        "always_encrypt": "classifier",
        "sensitivities": "sketch",
        "sensitivity_samples": 512,
        "key_mode": "dkms",
        "weighting": "client",
        "rest": "blinded",
        "uploads": "updates",
    },
    "paper": {
        "layout": "individual",
        "profile": "paillier-2048-scalar",
        "objective": "balance",
        "normalise": "budget",
        "gradient": "start",
        "bins": 10,
        "budget": "paper",
        "on_infeasible": "budget",
        "always_encrypt": "nothing",
        "sensitivities": "clear",
        "sensitivity_samples": 0,
        "key_mode": "shared-key",
        "weighting": "server",
        "rest": "plain",
        "uploads": "weights",
    },
}


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides how a run goes; together with the code it gives the same models again.

    Attributes:
        dataset: digits, mnist, fashion-mnist, cifar-10 or cifar-100.
        model: a name from the model zoo; empty: the usual one for the data set.
        clients: how many.
        partition: who holds what: iid, categories:4, classes:2, dirichlet:0.5.
        rounds: how many.
        seed: of partition, initial model and batches. Keys and ciphertexts are random whatever it is.
        preset: what holds where nothing else is said.
        policy: who encrypts what.
        ratio: share of the model that policies without budgets encrypt.
        crypto: `real`, or `calibrated`: nothing is encrypted, and what it would have cost is charged; for experiments.
        randomness: `fresh`, or `ahead`: made before the round, in a device's idle time.
        layout: `prefix`, `blocks` or `individual`.
        profile: the parameter set of the encryption.
        key_mode: `dkms` (a key server decrypts) or `shared-key` (clients do).
        weighting: who multiplies an update by its weight: the `client`, before encryption; or the `server`, ciphertext
            by number, as FedAvg is written. That takes slots of 64 bits, for sums are as many times larger as there
            are samples, and a rest that is plain. Where nothing is said and these are not given, it is the client.
        rest: what clients do not encrypt is `blinded`, so that only the key server can read its sum; or `plain`. Where
            nothing is said, it is plain with policy plaintext, and where clients share the key.
        uploads: what clients send of their training: `updates` (trained minus start), clipped to a bound that all
            know, so that every update fits its slots; or whole `weights`, as the paper has it.
        clip: the bound on an update's L2 norm; `auto`: an eighth of the norm of the initial model.
        sensitivities: what clients send for clustering: a keyed `sketch`, or the vector itself in the `clear`.
        sensitivity_epsilon: ε of the Gaussian noise on what clients send for clustering (Appendix G); 0: no noise. The
            summary also says what it is worth as local differential privacy. The encrypted sums that make the
            importance order carry no noise: nobody sees one client's.
        sensitivity_delta: δ of that noise.
        sensitivity_clip: G, the length that vectors are clipped to before noise is added; absolute. Noise grows with
            it, so choose about the length of a usual vector: the MLP's is 0.09 on digits and 0.03 on MNIST at its
            initial model, a sample's part 0.17 and 0.06.
        sensitivity_noise: what ε protects: the whole `vector`, as Appendix G is written: N(0, σ²G²) per number; or one
            `sample` of the client's n, each of whose parts w·g is clipped to G: N(0, σ²(2G/n)²) per number.
        gradient: where sensitivities are computed: at the model that the round starts from (`start`), as "during
            training" reads; or at the client's own model after it (`trained`), as Algorithm 2 writes.
        clustering_gradient: where the sensitivities for clustering are computed, before the first round: at the initial
            model (`start`); or after one iteration of local training from it (`trained`), as phase 1 of Algorithm 2.
        clustering: `auto`; `ap`, Affinity Propagation as the paper has it; `k-means`; or `none` for one model for all.
        clusters: of `k-means`; 0: the number with the best silhouette.
        objective: `protect` or `balance`.
        normalise: over which masks the two objectives of `balance` are scaled to [0, 1]: `all` masks; those within the
            `budget`; or the `feasible` ones, which meet every constraint.
        beta: the weights of cost and protection in `balance`.
        budget: what a device may encrypt: by the `paper` from CPUs and bandwidth; or what keeps the round's `deadline`.
        bandwidth: what the paper's budgets take a device's bandwidth to be: as `declared`, or as `measured` by the
            aggregator: the bytes of a client's first answer, which is for clustering or for the importance order,
            divided by its delay, computing included. A run on one machine without such an answer is refused. Budgets
            by the deadline use the seconds of each step.
        slack: of the deadline, relative to the slowest client's round without encryption.
        grace: of the deadline, in seconds; the longer of both counts.
        B: of the security floor.
        C: of the security floor.
        max_mi: bound on the mutual information in bits; negative: none.
        bins: of the mutual information.
        on_infeasible: `error`, `budget` or `security`.
        always_encrypt: the `classifier` and parameters that start at zero, whatever their sensitivity; or `nothing`.
        sensitivity_samples: samples that a round's sensitivities are computed on; 0: all.
        order_refresh: rounds after which a cluster's order is made anew.
        min_contributors: uploads without which no sum is decrypted, and clients of every encrypted block.
        quorum: share of a cluster's weight, and of its clients, that must arrive.
        sample: clients of a cluster that take part in a round: their share, if below 1; else how many; 0: all of them.
            Never fewer than `min_contributors`. Drawn by the seed on one machine, at random in fleets.
        server: how the mean update of a round moves a cluster's model: `fedavg`, `fedavgm`, `fedadam` or `fedyogi`.
        server_learning_rate: of that rule.
        server_momentum: β₁ of `fedavgm`, `fedadam` and `fedyogi`.
        server_beta2: β₂ of `fedadam` and `fedyogi`.
        server_tau: τ of `fedadam` and `fedyogi`.
        statistics: how many values at the end of the model's vector are no parameters but statistics, such as the
            running means of batch normalisation: they are averaged whatever the server's rule. A run on one machine
            counts them.
        local_epochs: of training a round.
        batch_size: of training.
        learning_rate: of training.
        momentum: of training.
        messages: `keep` what each party knew, clients' weights and the secret order included, in the run's folder, for
            attacks on it; or `forget`.
        workers: processes that play the clients.
        cpus: of the devices, dealt out in turn; several rows: round by round, the last one stays.
        bandwidths: of the devices in megabytes a second, likewise.
        ghz: clock speed of the devices' processors, likewise.
        server_cpus: of aggregator and key server.
    """

    dataset: str = "digits"
    model: str = ""
    clients: int = 20
    partition: str = "categories:4"
    rounds: int = 10
    seed: int = 0
    preset: Literal["default", "paper"] = "default"
    policy: str = "sensecrypt"
    ratio: float = 0.1
    crypto: Literal["real", "calibrated"] = "real"
    randomness: Literal["fresh", "ahead"] = "fresh"
    layout: Literal["prefix", "blocks", "individual"] = "prefix"
    profile: str = "paillier-2048"
    key_mode: Literal["dkms", "shared-key"] = "dkms"
    weighting: Literal["client", "server"] = "client"
    rest: Literal["blinded", "plain"] = "blinded"
    uploads: Literal["updates", "weights"] = "updates"
    clip: Clip = "auto"
    sensitivities: Literal["sketch", "clear"] = "sketch"
    sensitivity_epsilon: float = 0.0
    sensitivity_delta: float = 1e-5
    sensitivity_clip: float = 1.0
    sensitivity_noise: Literal["vector", "sample"] = "vector"
    gradient: Literal["start", "trained"] = "trained"
    clustering_gradient: Literal["start", "trained"] = "start"
    clustering: Literal["auto", "ap", "k-means", "none"] = "auto"
    clusters: int = 0
    objective: Literal["protect", "balance"] = "protect"
    normalise: Literal["all", "budget", "feasible"] = "all"
    beta: tuple[float, float] = (1.0, 1.0)
    budget: Literal["paper", "deadline"] = "deadline"
    bandwidth: Literal["declared", "measured"] = "declared"
    slack: float = 0.1
    grace: float = 1.0
    B: float = 1.3
    C: float = 0.7
    max_mi: float = 2.0
    bins: int = DEFAULT_BINS
    on_infeasible: Literal["error", "budget", "security"] = "security"
    always_encrypt: Literal["classifier", "nothing"] = "classifier"
    sensitivity_samples: int = 512
    order_refresh: int = 5
    min_contributors: int = 3  # so that one of them may collude with the aggregator
    quorum: float = 0.5
    sample: float = 0.0
    server: Literal["fedavg", "fedavgm", "fedadam", "fedyogi"] = "fedavg"
    server_learning_rate: float = 1.0
    server_momentum: float = 0.9
    server_beta2: float = 0.99
    server_tau: float = 1e-3
    statistics: int = 0
    local_epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 0.05
    momentum: float = 0.5
    messages: Literal["forget", "keep"] = "forget"
    workers: int = 2
    cpus: Rows = ((24, 16, 12, 10, 8),)
    bandwidths: Rows = ((50, 45, 40, 35, 30),)
    ghz: Rows = ((1.0,),)
    server_cpus: float = 104  # the paper's server

    def __post_init__(self) -> None:
        """Refuse what could not run."""
        for name in ("clients", "rounds", "order_refresh", "min_contributors", "local_epochs", "batch_size", "workers"):
            checks.whole(name, getattr(self, name), low=1)
        checks.whole("seed", self.seed, low=0)
        checks.whole("clusters", self.clusters, low=0, high=self.clients)
        checks.whole("bins", self.bins, low=1, high=MAX_BINS)
        checks.number("max_mi", self.max_mi, low=-_HUGE, high=_HUGE)
        for each in self.beta:
            checks.number("beta", each, low=_TINY, high=_HUGE)
        if self.sensitivity_epsilon != 0:  # for smaller ones, noise would overflow
            checks.number("sensitivity_epsilon", self.sensitivity_epsilon, low=_TINY, high=1.0)
        checks.number("sensitivity_delta", self.sensitivity_delta, low=1e-30, high=0.5)
        checks.number("sensitivity_clip", self.sensitivity_clip, low=_TINY, high=1e6)
        if self.clip != "auto":
            checks.number("clip", self.clip, low=_TINY, high=1e6)
        checks.number("sample", self.sample, low=0.0, high=_HUGE)
        checks.number("quorum", self.quorum, low=0.0, high=1.0, open_low=True)
        checks.number("learning_rate", self.learning_rate, low=0.0, high=1e6, open_low=True)
        checks.number("momentum", self.momentum, low=0.0, high=1.0)
        checks.number("slack", self.slack, low=0.0, high=_HUGE)
        checks.number("grace", self.grace, low=0.0, high=_HUGE)
        checks.number("ratio", self.ratio, low=0.0, high=1.0)
        checks.number("server_cpus", self.server_cpus, low=_TINY, high=_HUGE)
        checks.whole("sensitivity_samples", self.sensitivity_samples, low=0)
        checks.number("B", self.B, low=0.0, high=_HUGE)
        checks.number("C", self.C, low=0.0, high=1.0)
        for name in ("cpus", "bandwidths", "ghz"):
            rows = getattr(self, name)
            if not rows or not all(rows):
                raise InvalidInput(name, "are empty", "give a number for at least one device")
            for each in (each for row in rows for each in row):
                checks.number(name, each, low=_TINY, high=_HUGE)
        if self.server_rule != ServerRule(statistics=self.statistics) and self.uploads == "weights":
            fix = "set uploads=updates, or leave the server's settings out"
            raise InvalidInput("server", "rules are for updates, and clients upload weights", fix)
        profile = get_profile(self.profile)
        if self.layout == "individual" and profile.slots > 1:
            fix = "choose profile paillier-2048-scalar, or layout blocks or prefix"
            raise InvalidInput("layout", f"individual needs one value a ciphertext, {profile.name} packs", fix)
        if self.rest == "blinded" and self.key_mode == "shared-key":
            fix = "choose rest plain, or key_mode dkms"
            raise InvalidInput("rest", "cannot be blinded without a key server that unblinds", fix)
        if self.weighting == "server" and not _server_can_weigh(self.profile, self.rest):
            fix = "choose profile paillier-2048-scalar or paillier-2048-slot64 and rest plain, or weighting client"
            raise InvalidInput("weighting", f"server is not for {profile.name} with rest {self.rest}", fix)
        if self.randomness == "ahead" and not profile.randomness_ahead:
            fix = "choose randomness fresh, or a paillier profile"
            raise InvalidInput("randomness", f"cannot be made ahead for {profile.name}", fix)

    @property
    def server_rule(self) -> ServerRule:
        """How the mean update of a round moves a cluster's model."""
        rates = (self.server_learning_rate, self.server_momentum, self.server_beta2, self.server_tau)
        return ServerRule(self.server, *rates, statistics=self.statistics)

    @property
    def blinded(self) -> bool:
        """Whether what clients do not encrypt is hidden from the aggregator, too."""
        return self.rest == "blinded"

    def devices(self, number: int) -> list[Device]:
        """What every client has in that round."""
        now = [rows[min(max(number, 0), len(rows) - 1)] for rows in (self.cpus, self.bandwidths, self.ghz)]
        return [Device(*(row[client % len(row)] for row in now)) for client in range(self.clients)]


def make_config(settings: Mapping[str, Any]) -> RunConfig:
    """A configuration from explicit settings above those of their preset.

    Args:
        settings: by key; strings are converted to the key's type.
    """
    kinds = get_type_hints(RunConfig)
    refuse_unknown(settings, kinds, "a run's configuration")
    explicit = {key: _convert(key, value, kinds[key]) for key, value in settings.items()}
    settings = {**PRESETS[explicit.get("preset", "default")], **explicit}
    nobody_unblinds = settings["key_mode"] == "shared-key"
    if (nobody_unblinds or settings.get("policy") == "plaintext") and "rest" not in explicit:
        settings["rest"] = "plain"
    if settings["uploads"] == "weights" and explicit.get("clip", "auto") != "auto":
        raise InvalidInput("clip", "is for updates, and clients upload weights", "set uploads=updates, or leave it out")
    if "weighting" not in explicit and not _server_can_weigh(settings["profile"], settings["rest"]):
        settings["weighting"] = "client"
    return RunConfig(**settings)


def read_config(path: Path | None, changes: Mapping[str, Any]) -> RunConfig:
    """A configuration from a TOML file, if any, with `changes` above it."""
    settings: dict[str, Any] = {}
    if path is not None:
        settings = read_toml(path, otherwise="check the path", example="rounds = 10")
    return make_config({**settings, **changes})


def to_settings(config: RunConfig) -> dict[str, Any]:
    """All settings as plain values, for JSON."""
    return {
        key: _plain(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(config).items()
    }


def _server_can_weigh(profile: str, rest: str) -> bool:
    """Whether the aggregator can multiply what clients send by their sample counts, and add it up."""
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


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("another type")
    return float(value)


def _cut(text: str) -> str:
    """In one line, and not longer than a line."""
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
