"""A run on a fleet that is up: registers it with the key service, submits it to Flower, and follows it."""

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
_LOOK_SECONDS = 0.25  # between two looks into the run's folder
_ASK_SECONDS, _ASK_BUSY_SECONDS = 10.0, 60.0  # between two `flwr list`, each of a CPU second; while a ServerApp runs

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
    """Register and submit a run, or submit it again.

    Args:
        folder: of a fleet that is up.
        config: of the run.
        run: its name; None: the time.
        resume: continue a registered run after its last complete round.
        deadline: seconds to wait for a round's replies; None: the engine's default.
        enrol_seconds: seconds to wait for clients before the first round; None: the engine's default.
    """
    description = folder.refuse_unless_up()
    name = check_name("--name", run or datetime.now().strftime("%Y-%m-%d-%H%M%S"))
    given = {"deadline": deadline, "enrol-seconds": enrol_seconds}
    seconds = {
        key: checks.number(f"--{key}", value, low=0, open_low=True) for key, value in given.items() if value is not None
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
    """A run that Flower has accepted.

    Attributes:
        fleet: the fleet's folder.
        run: its name.
        number: Flower's id of the run.
        before: the stamp of an earlier attempt's outcome.
    """

    fleet: FleetFolder
    run: str
    number: str
    before: tuple[int, int] | None

    @property
    def folder(self) -> Path:
        """The aggregator's folder of the run."""
        return self.fleet.run(self.run)

    def log(self) -> Path:
        """The file with the ServerApp's log so far; SuperLink's log if Flower cannot return it."""
        path = self.fleet.log(f"run-{self.run}")
        try:
            write_whole(path, flower.run_log(self.fleet, self.number).encode())
        except SenseCryptError:
            return self.fleet.log("superlink")
        return path

    def has_outcome(self) -> bool:
        """Whether this attempt has written its outcome."""
        return _stamp(self.folder) not in (None, self.before)

    def status(self) -> tuple[str, str]:
        """Flower's status of the run, and details; `unknown` while SuperLink does not answer."""
        try:
            return flower.run_status(self.fleet, self.number)
        except SenseCryptError as error:
            return "unknown", str(error)

    def stop(self) -> None:
        """End the run; it can be resumed."""
        _stop(self.fleet, self.number)

    def hint(self) -> str:
        """The command that continues the run."""
        option = "--resume" if RunFolder(self.folder).exists() else "--name"
        return f"continue with: sensecrypt fleet run --folder {self.fleet.path} {option} {self.run}"

    def wait(self, timeout: float | None = None, *, on_round: OnRound | None = None) -> Submitted:
        """Wait for the outcome; raise if the run ends without one.

        Args:
            timeout: in seconds; None: no limit.
            on_round: receives after each round its number, the last known mean accuracy, the mean encrypted share.
        """
        begun = asked = time.monotonic()
        reported = -1
        while not self.has_outcome():
            now = time.monotonic()
            if timeout is not None and now - begun > timeout:
                problem = f"has not ended after {timeout:.0f} s"
                raise Unreachable(f"run {self.run}", problem, f"wait longer, or read {self.log()}")
            if now - asked > (_ASK_BUSY_SECONDS if _server_apps(self.fleet) else _ASK_SECONDS):
                self._refuse_ended()
                asked = time.monotonic()
            reported = self._report_rounds(reported, on_round)
            time.sleep(_LOOK_SECONDS)
        self._report_rounds(reported, on_round)
        return self

    def outcome(self) -> Outcome:
        """The outcome; raises the run's error if it failed."""
        from sensecrypt.runs.outcome import read_outcome

        try:
            return read_outcome(self.folder)
        except SenseCryptError as error:
            raise SenseCryptError(f"{error}; read {self.log()}") from None

    def _refuse_ended(self) -> None:
        status, details = self.status()
        if status == "unknown":
            self.fleet.refuse_unless_up()  # raises if the fleet has ended, not if SuperLink is restarted
        if status.startswith("finished") and not self.has_outcome():
            more = f", {details}" if details not in ("", "N/A") else ""
            problem = f"run {self.run} ended without an outcome (Flower reports {status}{more})"
            raise SenseCryptError(f"{problem}; read {self.log()}, then {self.hint()}")

    def _report_rounds(self, reported: int, on_round: OnRound | None) -> int:
        """Report the rounds after `reported`; the last one that is reported now."""
        if on_round is None:
            return reported
        records = RunFolder(self.folder).records()
        accuracy = _latest_accuracy(records)
        for number in sorted({each.round for each in clients_of(records) if each.round > reported}):
            shares = [
                each.encrypted_share
                for each in clients_of(records)
                if each.round == number and each.encrypted_share is not None
            ]
            on_round(number, accuracy, _mean(shares))
            reported = number
        return reported


def _latest_accuracy(records: list[Record]) -> float:
    """The mean accuracy of the last evaluated round: clients evaluate a model when they receive it."""
    evaluations = [record for record in records if isinstance(record, Evaluation)]
    last = max((record.round for record in evaluations), default=-1)
    return _mean([record.accuracy for record in evaluations if record.round == last])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _stamp(run: Path) -> tuple[int, int] | None:
    """A stamp that differs between two `outcome.json`; None without one."""
    try:
        found = (run / "outcome.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _tag(folder: FleetFolder, run: str) -> Path:
    return folder.app(run).with_name(f"{run}.json")


def _stop_earlier(folder: FleetFolder, run: str) -> None:
    """End an earlier attempt: two ServerApps must not write one run."""
    try:
        number = json.loads(_tag(folder, run).read_text(encoding="utf-8"))["flower-run"]
    except FileNotFoundError:
        return
    _stop(folder, number)


def _server_apps(folder: FleetFolder) -> list[int]:
    """The ServerApps that run; empty without /proc."""
    return running(tag("superlink", folder), "flwr-serverapp")


def _stop(folder: FleetFolder, number: str) -> None:
    """End a run of Flower's, and wait for the end of its ServerApp, which comes with its next heartbeat."""
    if flower.run_status(folder, number)[0].startswith("finished"):
        return
    apps = _server_apps(folder)
    flower.stop_run(folder, number)
    end(apps, seconds=_HEARTBEAT_SECONDS, ask=len(apps) == 1)  # of several, it is not known which one is of this run
