"""One tree of errors for both packages: a sentence, a fix, an exit code."""

from __future__ import annotations


class DoppelcamError(Exception):
    """Something a person can act on.

    Args:
        what: One sentence that names the thing and what is wrong with it.
        fix: What to type or change to mend it; empty when there is nothing to say.
    """

    exit_code = 1

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what} {self.fix}".strip()


class UsageError(DoppelcamError):
    """A command line, a configuration or a file given by the user cannot be used."""

    exit_code = 2


class PhotoError(UsageError):
    """A source photo cannot be used; the sentence says why."""


class DeviceError(DoppelcamError):
    """A camera or a virtual camera is missing, busy, not permitted, or was lost and did not come back."""

    exit_code = 3


class EngineError(DoppelcamError):
    """A network or a swapper cannot be opened or failed while running."""

    exit_code = 4


class BudgetMissed(DoppelcamError):
    """A latency budget was missed and the caller asked for it to be enforced."""

    exit_code = 5
