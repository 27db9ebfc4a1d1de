"""Exit codes of commands, and the errors that cause them.

    CliError
    ├── NotFound        1   no such consumer, partition, pod, batch …
    ├── RefusedError    2   the cluster, or this program, refuses it
    ├── Failed          3   it could not be carried out; also an invalid option
    └── ClusterError    4   the cluster does not answer
        └── Forbidden   4   the user lacks a right

2 is never the result of invalid options, so that `audit` returns it only for a proven violation.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes."""

    OK = 0
    NOT_FOUND = 1
    REFUSED = 2
    FAILED = 3
    NO_CLUSTER = 4


EXIT_CODES = {
    ExitCode.OK: "success",
    ExitCode.NOT_FOUND: "not found, explained gaps (audit), or a difference (certify)",
    ExitCode.REFUSED: "refused, a violation (audit), or undecided (certify)",
    ExitCode.FAILED: "could not be carried out",
    ExitCode.NO_CLUSTER: "the cluster is not reachable, or a permission is missing",
}


class CliError(Exception):
    """Base of all errors above; its text names the thing and the cause.

    Attributes:
        exit_code: Exit code of the program.
        remedy: The remedy; empty: it is part of the text.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class NotFound(CliError):
    """A named object does not exist."""

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
    """The user lacks a permission (HTTP 401, 403)."""
