"""The exceptions of this package.

    SenseCryptError
    ├── InvalidInput            a mistake of the caller: names the argument and the fix (exit code 2)
    │   ├── MaskMismatch        masks, or a mask and a vector, of different models
    │   ├── ValueDoesNotFit     a number that does not fit its slot
    │   ├── InvalidKey          a key that is too small, malformed or of another scheme
    │   ├── InvalidCiphertext   bytes that are not a ciphertext of this key
    │   ├── NotApplicable       an attack whose input is missing from the observation
    │   ├── KeyFileError        a key file that is damaged, exists already or has another passphrase
    │   ├── CertificateError    a certificate that is missing, out of date, or of the wrong kind
    │   └── ServiceError        a service that cannot start: its folder, its port, its clock
    ├── Rejected                a message that a role refuses, with the reason (exit code 1)
    ├── Refused                 a request that a service refuses, with a code and a fix (exit code 1)
    ├── Unreachable             a service that cannot be reached, with the reason (exit code 1)
    ├── AuditFailed             an audit log that was changed (exit code 1)
    ├── InfeasibleSelection     no selection of parameters meets all constraints (exit code 1)
    ├── MissingExtra            a feature whose optional packages are not installed (exit code 2)
    └── WorkerDied              a worker process that ended without a result (exit code 1)

No message contains a plaintext, a key or a ciphertext.
"""

from __future__ import annotations

from typing import Any


class SenseCryptError(Exception):
    """The base class of all exceptions of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Make errors picklable between processes, whatever the arguments of their constructors."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[SenseCryptError], arguments: tuple[Any, ...], state: dict[str, Any]) -> SenseCryptError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class InvalidInput(SenseCryptError, ValueError):
    """An invalid argument, with the problem and the fix."""

    def __init__(self, argument: str, problem: str, fix: str) -> None:
        """Store the three parts, so that a caller can react to `argument`."""
        super().__init__(f"{argument}: {problem}; {fix}")
        self.argument, self.problem, self.fix = argument, problem, fix


class MaskMismatch(InvalidInput):
    """Two masks, or a mask and a vector, that do not belong to the same model."""


class ValueDoesNotFit(InvalidInput):
    """A number that does not fit its slot: it is neither wrapped nor clipped. The message does not contain it."""


class InvalidKey(InvalidInput):
    """A key that is invalid or must not be used here."""


class InvalidCiphertext(InvalidInput):
    """Bytes that are not a ciphertext of this key."""


class NotApplicable(InvalidInput):
    """An attack on an observation that lacks the attack's input."""


class KeyFileError(InvalidInput):
    """A key file that cannot be read or written."""


class CertificateError(InvalidInput):
    """A certificate that is invalid, or not valid now."""


class ServiceError(InvalidInput):
    """A service that cannot start with its settings."""


class Rejected(SenseCryptError):
    """A message that a role refuses: malformed, late, repeated or not verified. The round continues without it.

    Attributes:
        code: the kind of refusal, for programs.
    """

    def __init__(self, reason: str, *, code: str = "rejected") -> None:
        """Store the reason and the code."""
        super().__init__(reason)
        self.code = code


class Refused(SenseCryptError):
    """A request that a service refuses.

    Attributes:
        code: the kind of refusal, for programs.
        reason: the reason, for users.
        fix: what to do.
    """

    def __init__(self, code: str, reason: str, fix: str) -> None:
        """Store the three parts, as the service sends them."""
        super().__init__(f"{reason}; {fix}")
        self.code, self.reason, self.fix = code, reason, fix


class Unreachable(SenseCryptError):
    """A service that cannot be reached."""

    def __init__(self, where: str, problem: str, fix: str) -> None:
        """Store the service's address, the problem and the fix."""
        super().__init__(f"{where}: {problem}; {fix}")
        self.where, self.problem, self.fix = where, problem, fix


class AuditFailed(SenseCryptError):
    """An audit log that was altered, shortened or does not belong to its database."""

    def __init__(self, log: str, problem: str, fix: str) -> None:
        """Store the name of the log, the problem and the fix."""
        super().__init__(f"{log}: {problem}; {fix}")
        self.log, self.problem, self.fix = log, problem, fix


class MissingExtra(SenseCryptError):
    """A feature whose optional packages are not installed."""

    def __init__(self, feature: str, *extras: str) -> None:
        """Name the extras that install the feature's packages."""
        self.extra = ",".join(extras)
        fix = f'pip install "sensecrypt[{self.extra}]"'
        super().__init__(f"{feature} needs packages that are not installed; run: {fix}")


class WorkerDied(SenseCryptError):
    """A worker process that ended without a result, for example for lack of memory."""


class InfeasibleSelection(SenseCryptError):
    """No number of encrypted blocks satisfies budget, security floor and leakage bound together.

    Attributes:
        budget: number of blocks that the budget allows.
        needed_for_security: the fewest blocks that reach the security floor.
        needed_for_mi: the fewest blocks that keep the bound on the mutual information; None: there is no bound.
        total: number of blocks of the model.
    """

    def __init__(self, *, budget: int, needed_for_security: int, needed_for_mi: int | None, total: int) -> None:
        """Store all numbers that help to change the settings."""
        leakage = "" if needed_for_mi is None else f", the leakage bound {needed_for_mi:,}"
        super().__init__(
            f"no selection fits: the budget allows {budget:,} of {total:,} blocks, the security floor needs "
            f"{needed_for_security:,}{leakage}; raise the budget or max_mi, lower B or raise C, "
            "or pass on_infeasible='budget' or 'security'"
        )
        self.budget, self.total = budget, total
        self.needed_for_security, self.needed_for_mi = needed_for_security, needed_for_mi
