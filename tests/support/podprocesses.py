"""The processes of a pod, where its node is this machine."""

import contextlib
from pathlib import Path


def processes(pod: str) -> list[int]:
    """The processes of a host or driver pod, the first one first; none: the pod's node is not this machine.

    Without `tini`, the first process of a driver: it ends when Java does.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            program = (folder / "cmdline").read_bytes().split(b"\0")[0]
            if f"POD_NAME={pod}".encode() in environment and b"tini" not in program:
                found.append(int(folder.name))
    return sorted(found)
