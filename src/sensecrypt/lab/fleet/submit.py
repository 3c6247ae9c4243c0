"""A run on a fleet that is up: registered at the key service, submitted to Flower, followed to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sensecrypt import checks
from sensecrypt.config import RunConfig
from sensecrypt.errors import InvalidInput, SenseCryptError, Unreachable
from sensecrypt.files import write_whole
from sensecrypt.keyservice.names import check_name
from sensecrypt.lab.fleet import flower
from sensecrypt.lab.fleet.app import write_app
from sensecrypt.lab.fleet.commands import tag
from sensecrypt.lab.fleet.folder import FleetFolder
from sensecrypt.lab.fleet.processes import end, running
from sensecrypt.lab.fleet.registration import check_config, register
from sensecrypt.records import Evaluation, Record, clients_of
from sensecrypt.runs.folder import RunFolder

if TYPE_CHECKING:
    from sensecrypt.runs.outcome import Outcome

_HEARTBEAT_SECONDS = 25.0
_LOOK_SECONDS, _ASK_SECONDS = 0.5, 10.0  # at the run's folder; at Flower, which takes a process and a second

OnRound = Callable[[int, float, float], None]


def submit(
    folder: FleetFolder,
    config: RunConfig,
    *,
    run: str | None = None,
    resume: bool = False,
    deadline: float | None = None,
    enrol_seconds: float | None = None,
) -> Submitted:
    """Register a run and submit it, or submit it again.

    Args:
        folder: of a fleet that is up.
        config: of the run.
        run: its name; None: the time.
        resume: the run was registered before, and goes on after its last complete round.
        deadline: seconds that a round's replies are waited for; None: as the engine does.
        enrol_seconds: seconds that clients are waited for before the first round; None: as the engine does.
    """
    description = folder.refuse_unless_up()
    name = check_name("--name", run or datetime.now().strftime("%Y-%m-%d-%H%M%S"))
    told = {"deadline": deadline, "enrol-seconds": enrol_seconds}
    seconds = {
        key: checks.number(f"--{key}", value, low=0, open_low=True) for key, value in told.items() if value is not None
    }
    check_config(config, description)
    begun = RunFolder(folder.run(name)).exists()
    if resume and not begun:
        raise InvalidInput("--resume", f"{name} has not begun in this fleet", "start it with --name")
    if begun and not resume:
        fix = "continue it with --resume, or choose another name and another seed: clients start from one model once"
        raise InvalidInput("--name", f"{name} is a run of this fleet already", fix)
    _stop_earlier(folder, name)
    if not resume:
        register(folder, description, config, name)
    app = write_app(folder.app(name), config, run=name, seconds=seconds)
    before = _stamp(folder.run(name))
    number = flower.submit_app(folder, app)
    write_whole(_tag(folder, name), json.dumps({"flower-run": number}).encode())
    return Submitted(folder, name, number, before)


@dataclass(frozen=True)
class Submitted:
    """A run that Flower has taken.

    Attributes:
        fleet: the fleet's folder.
        run: its name.
        number: that Flower calls it by.
        before: which outcome was there before, of an earlier attempt.
    """

    fleet: FleetFolder
    run: str
    number: str
    before: tuple[int, int] | None

    @property
    def folder(self) -> Path:
        """Where the aggregator keeps the run."""
        return self.fleet.run(self.run)

    def log(self) -> Path:
        """What the ServerApp has said so far, as Flower keeps it; SuperLink's own log if that cannot be had."""
        path = self.fleet.log(f"run-{self.run}")
        try:
            write_whole(path, flower.run_log(self.fleet, self.number).encode())
        except SenseCryptError:
            return self.fleet.log("superlink")
        return path

    def has_outcome(self) -> bool:
        """Whether this attempt has written how it ended."""
        return _stamp(self.folder) not in (None, self.before)

    def status(self) -> tuple[str, str]:
        """What Flower says about it, and details; nothing while SuperLink cannot be asked."""
        try:
            return flower.run_status(self.fleet, self.number)
        except SenseCryptError as error:
            return "unknown", str(error)

    def stop(self) -> None:
        """End it; it can be resumed."""
        _stop(self.fleet, self.number)

    def hint(self) -> str:
        """How to go on with it."""
        option = "--resume" if RunFolder(self.folder).exists() else "--name"
        return f"continue with: sensecrypt fleet run --folder {self.fleet.path} {option} {self.run}"

    def wait(self, timeout: float | None = None, *, on_round: OnRound | None = None) -> Submitted:
        """Wait until it has ended with an outcome; raise if it ended without one.

        Args:
            timeout: in seconds; None: however long it takes.
            on_round: told after each round: its number, the mean accuracy known by then, the mean encrypted share.
        """
        begun = asked = time.monotonic()
        told = -1
        while not self.has_outcome():
            now = time.monotonic()
            if timeout is not None and now - begun > timeout:
                problem = f"has not ended after {timeout:.0f} s"
                raise Unreachable(f"run {self.run}", problem, f"wait longer, or read {self.log()}")
            if now - asked > _ASK_SECONDS:
                self._refuse_ended()
                asked = time.monotonic()
            told = self._tell_rounds(told, on_round)
            time.sleep(_LOOK_SECONDS)
        self._tell_rounds(told, on_round)
        return self

    def outcome(self) -> Outcome:
        """How it ended; raises what went wrong if it failed."""
        from sensecrypt.runs.outcome import read_outcome

        try:
            return read_outcome(self.folder)
        except SenseCryptError as error:
            raise SenseCryptError(f"{error}; read {self.log()}") from None

    def _refuse_ended(self) -> None:
        status, details = self.status()
        if status == "unknown":
            self.fleet.refuse_unless_up()  # SuperLink may be away for a moment; with the fleet gone, nothing will come
        if status.startswith("finished") and not self.has_outcome():
            told = f", {details}" if details not in ("", "N/A") else ""
            problem = f"run {self.run} ended without an outcome (Flower says {status}{told})"
            raise SenseCryptError(f"{problem}; read {self.log()}, then {self.hint()}")

    def _tell_rounds(self, told: int, on_round: OnRound | None) -> int:
        """Tell about the rounds after `told`; the last one told."""
        if on_round is None:
            return told
        records = RunFolder(self.folder).records()
        accuracy = _latest_accuracy(records)
        for number in sorted({each.round for each in clients_of(records) if each.round > told}):
            shares = [
                each.encrypted_share
                for each in clients_of(records)
                if each.round == number and each.encrypted_share is not None
            ]
            on_round(number, accuracy, _mean(shares))
            told = number
        return told


def _latest_accuracy(records: list[Record]) -> float:
    """The mean in the last round whose models were tried: clients do that with what they get in the next one."""
    tried = [record for record in records if isinstance(record, Evaluation)]
    last = max((record.round for record in tried), default=-1)
    return _mean([record.accuracy for record in tried if record.round == last])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _stamp(run: Path) -> tuple[int, int] | None:
    """Tells one `outcome.json` from another; None without one."""
    try:
        found = (run / "outcome.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _tag(folder: FleetFolder, run: str) -> Path:
    return folder.app(run).with_name(f"{run}.json")


def _stop_earlier(folder: FleetFolder, run: str) -> None:
    """Two ServerApps on one run would get in each other's way."""
    try:
        number = json.loads(_tag(folder, run).read_text(encoding="utf-8"))["flower-run"]
    except FileNotFoundError:
        return
    _stop(folder, number)


def _stop(folder: FleetFolder, number: str) -> None:
    """End a run of Flower's, and wait for the end of its ServerApp, which notices by its next heartbeat only."""
    if flower.run_status(folder, number)[0].startswith("finished"):
        return
    apps = running(tag("superlink", folder), "flwr-serverapp")
    flower.stop_run(folder, number)
    end(apps, seconds=_HEARTBEAT_SECONDS, ask=len(apps) == 1)  # of several, nobody knows which one plays this run
