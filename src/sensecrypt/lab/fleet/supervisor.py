"""Restarts a part that has died, as a service manager would, and reports it."""

from __future__ import annotations

from collections.abc import Callable

from sensecrypt.lab.fleet.part import REFUSED_SECONDS, Part

MOST_RESTARTS, MOST_REFUSALS = 5, 30
STEADY_SECONDS = 60.0  # the count of restarts is reset for a part that ran that long
_PAUSE_SECONDS = 1.0  # times the number of restarts

Say = Callable[[str], None]


class Supervisor:
    """Restarts one part."""

    def __init__(self, part: Part, say: Say) -> None:
        """Supervise this part; `say` receives a line for each event."""
        self._part, self._say = part, say
        self._restarts = self._refusals = 0

    def look(self) -> bool:
        """Restart the part if it should run and does not; whether it was restarted."""
        if not self._part.wanted or self._part.alive:
            return False
        return self._try_again() if self._part.refused else self._restart()

    def _restart(self) -> bool:
        part = self._part
        if part.age > STEADY_SECONDS:
            self._restarts = 0
        if part.age < _PAUSE_SECONDS * self._restarts:
            return False
        self._refusals = 0
        died = f"{part.name} died ({_how(part)}); its log is {part.log}"
        if self._restarts == MOST_RESTARTS:
            return self._give_up(f"{died}; it is not started again after {MOST_RESTARTS} restarts")
        self._restarts += 1
        self._say(f"{died}; starting it again ({self._restarts} of {MOST_RESTARTS})")
        part.start()
        return True

    def _try_again(self) -> bool:
        """Restart a refused part: SuperLink regards a killed node as online until it has missed two heartbeats."""
        part = self._part
        if part.age < REFUSED_SECONDS:
            return False
        if self._refusals == MOST_REFUSALS:
            return self._give_up(
                f"{part.name} is refused by SuperLink, and is not started again; its log is {part.log}"
            )
        if self._refusals == 0:
            self._say(f"{part.name} is still online for SuperLink, which admits it again within a minute")
        self._refusals += 1
        part.start()
        return True

    def _give_up(self, message: str) -> bool:
        self._part.wanted = False
        self._say(message)
        return False


def _how(part: Part) -> str:
    code = part.exit_code or 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"
