"""The errors of the local cluster. Each message names the object, the cause and the remedy.

ClusterError
├── HostUnfit         the machine lacks a right or a kernel feature
├── Conflict          another program uses a required resource (a port, a network) or is another kubelet
├── CommandFailed     a started program returned non-zero
├── NotReady          a process of the cluster ended early or did not become ready in time
├── NotBuilt          a requested image was not built in its current version
└── LeftoverStuck     a remaining mount or process of a former cluster cannot be removed
"""

from collections.abc import Sequence
from pathlib import Path


class ClusterError(Exception):
    """Base of all errors that are shown to the user without a traceback."""


class HostUnfit(ClusterError):
    """The machine lacks a right or a kernel feature that the cluster needs."""


class Conflict(ClusterError):
    """Another program uses a port, network or kubelet that the cluster needs."""


class NotBuilt(ClusterError):
    """An image was not built in its current version."""


class LeftoverStuck(ClusterError):
    """A mount or process of a former cluster cannot be removed."""


class CommandFailed(ClusterError):
    """A program returned non-zero.

    Attributes:
        returncode: The exit code of the program.
    """

    def __init__(self, argv: Sequence[str], returncode: int, excerpt: str, log: Path | None = None) -> None:
        where = f"\nFull log: {log}" if log else ""
        super().__init__(f"`{' '.join(argv)}` failed with exit code {returncode}:\n{excerpt.strip()}{where}")
        self.returncode = returncode


class NotReady(ClusterError):
    """A process of the cluster did not become ready.

    Attributes:
        name: The component, such as `kubelet`.
    """

    def __init__(self, name: str, reason: str, excerpt: str, log: Path) -> None:
        super().__init__(
            f"{name} {reason}. Its last words:\n{excerpt.strip() or '(nothing was logged)'}\nFull log: {log}\n"
            "Retry with `python -m local_cluster up`; `down` first removes everything but the images."
        )
        self.name = name
