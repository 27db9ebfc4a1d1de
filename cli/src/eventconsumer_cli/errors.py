"""Every way a command ends, and the errors that end it.

    CliError
    ├── NotFound        1   no such consumer, partition, pod, batch …
    ├── RefusedError    2   the cluster, or this program, does not do that
    ├── Failed          3   it could not be carried out; a wrong option too
    └── ClusterError    4   the cluster does not answer
        └── Forbidden   4   the user lacks a right

2 is never the answer to a mistake in the call, so that `audit` answers it for a proven violation only.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees."""

    OK = 0
    NOT_FOUND = 1  # audit: gaps that are explained
    REFUSED = 2  # audit: a violation
    FAILED = 3
    NO_CLUSTER = 4


EXIT_CODES = (
    "Exit codes: 0 done; 1 not found, or gaps that are explained (audit); 2 refused, or a violation (audit); "
    "3 could not be carried out; 4 the cluster is not reachable, or a right is missing."
)


class CliError(Exception):
    """Base of all errors above; its text names the thing and the cause.

    Attributes:
        exit_code: How the program ends.
        remedy: What to do about it; empty: the text says it.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class NotFound(CliError):
    """What was named does not exist."""

    exit_code = ExitCode.NOT_FOUND


class RefusedError(CliError):
    """The cluster does not accept it, or it would not be safe."""

    exit_code = ExitCode.REFUSED


class Failed(CliError):
    """It could not be carried out."""


class ClusterError(CliError):
    """The cluster does not answer."""

    exit_code = ExitCode.NO_CLUSTER


class Forbidden(ClusterError):
    """The user lacks a right (HTTP 401, 403)."""
