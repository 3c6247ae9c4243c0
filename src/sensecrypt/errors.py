"""Everything this package raises on purpose.

    SenseCryptError
    ├── InvalidInput            a caller's mistake: names the argument and the fix (exit code 2)
    │   ├── MaskMismatch        masks, or a mask and a vector, of different models
    │   ├── ValueDoesNotFit     a number beyond what its slot can hold
    │   ├── InvalidKey          a key that is too small, malformed or of another scheme
    │   ├── InvalidCiphertext   bytes that are no ciphertext, or none of this key
    │   ├── NotApplicable       an attack that lacks the input it lives on
    │   ├── KeyFileError        a key file that is damaged, exists already or has another passphrase
    │   ├── CertificateError    a certificate that is missing, out of date, or of the wrong kind
    │   └── ServiceError        a service that cannot start as asked: its folder, its port, its clock
    ├── Rejected                a message that a role refuses, with its reason (exit code 1)
    ├── Refused                 a request that a service does not grant, with a code and what to do (exit code 1)
    ├── Unreachable             a service that cannot be talked to, and why (exit code 1)
    ├── AuditFailed             an audit log that is not what was written (exit code 1)
    ├── InfeasibleSelection     no choice of parameters meets all constraints (exit code 1)
    ├── MissingExtra            an optional package that this feature needs (exit code 2)
    └── WorkerDied              a worker process ended without a result (exit code 1)

No message ever holds a plaintext, a key or a ciphertext.
"""

from __future__ import annotations

from typing import Any


class SenseCryptError(Exception):
    """Root of the tree: catch this to catch all of ours."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process borders whole, whatever their constructors ask for."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[SenseCryptError], arguments: tuple[Any, ...], state: dict[str, Any]) -> SenseCryptError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


class InvalidInput(SenseCryptError, ValueError):
    """An argument that cannot be used, with the reason and what to do instead."""

    def __init__(self, argument: str, problem: str, fix: str) -> None:
        """Keep the three parts, so that a caller can react to `argument`."""
        super().__init__(f"{argument}: {problem}; {fix}")
        self.argument, self.problem, self.fix = argument, problem, fix


class MaskMismatch(InvalidInput):
    """Two masks, or a mask and a vector, that do not belong to the same model."""


class ValueDoesNotFit(InvalidInput):
    """A number that its slot cannot hold: an error, no wrapping or clipping. The message does not have the number."""


class InvalidKey(InvalidInput):
    """A key that must not be used, or not here."""


class InvalidCiphertext(InvalidInput):
    """Bytes that are no ciphertext of this key."""


class NotApplicable(InvalidInput):
    """An attack on an observation that has not what the attack lives on."""


class KeyFileError(InvalidInput):
    """A key file that cannot be read or written as asked."""


class CertificateError(InvalidInput):
    """A certificate that cannot be used, or not now."""


class ServiceError(InvalidInput):
    """A service that cannot start as asked."""


class Rejected(SenseCryptError):
    """A message that a role refuses: malformed, late, doubled or not verified. The round goes on without it.

    Attributes:
        code: the kind of refusal, for programs.
    """

    def __init__(self, reason: str, *, code: str = "rejected") -> None:
        """Say why."""
        super().__init__(reason)
        self.code = code


class Refused(SenseCryptError):
    """A request that a service does not grant.

    Attributes:
        code: the kind of refusal, for programs.
        reason: for people.
        fix: what to do about it.
    """

    def __init__(self, code: str, reason: str, fix: str) -> None:
        """Keep the parts as a service sends them."""
        super().__init__(f"{reason}; {fix}")
        self.code, self.reason, self.fix = code, reason, fix


class Unreachable(SenseCryptError):
    """A service that cannot be talked to."""

    def __init__(self, where: str, problem: str, fix: str) -> None:
        """Say where it should be, what happened, and what to do."""
        super().__init__(f"{where}: {problem}; {fix}")
        self.where, self.problem, self.fix = where, problem, fix


class AuditFailed(SenseCryptError):
    """An audit log that was altered, shortened or does not belong to its database."""

    def __init__(self, log: str, problem: str, fix: str) -> None:
        """Say which log, what is wrong with it, and what to do."""
        super().__init__(f"{log}: {problem}; {fix}")
        self.log, self.problem, self.fix = log, problem, fix


class MissingExtra(SenseCryptError):
    """A feature whose optional packages are not installed."""

    def __init__(self, feature: str, *extras: str) -> None:
        """Name the extras that install what the feature needs."""
        self.extra = ",".join(extras)
        fix = f'pip install "sensecrypt[{self.extra}]"'
        super().__init__(f"{feature} needs packages that are not installed; run: {fix}")


class WorkerDied(SenseCryptError):
    """A worker process that ended without a result, for example for lack of memory."""


class InfeasibleSelection(SenseCryptError):
    """No number of encrypted blocks satisfies budget, security floor and leakage bound together.

    Attributes:
        budget: blocks that the budget allows.
        needed_for_security: fewest blocks that reach the security floor.
        needed_for_mi: fewest blocks that keep the mutual information within its bound; None without a bound.
        total: blocks in the model.
    """

    def __init__(self, *, budget: int, needed_for_security: int, needed_for_mi: int | None, total: int) -> None:
        """Give all numbers that are needed to change the settings."""
        leakage = "" if needed_for_mi is None else f", the leakage bound {needed_for_mi:,}"
        super().__init__(
            f"no selection fits: the budget allows {budget:,} of {total:,} blocks, the security floor needs "
            f"{needed_for_security:,}{leakage}; raise the budget or max_mi, lower B or raise C, "
            "or pass on_infeasible='budget' or 'security'"
        )
        self.budget, self.total = budget, total
        self.needed_for_security, self.needed_for_mi = needed_for_security, needed_for_mi
