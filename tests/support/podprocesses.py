"""The processes of a pod, where its node is this machine."""

import contextlib
from pathlib import Path


def processes(pod: str) -> list[int]:
    """The processes of a pod, the first one first; none: the pod's node is not this machine.

    Without `tini`, the first process of most images: it ends when the program does. The container runtime sets HOSTNAME
    to the pod's name: https://kubernetes.io/docs/concepts/containers/container-environment/
    """
    names = {f"POD_NAME={pod}".encode(), f"HOSTNAME={pod}".encode()}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            program = (folder / "cmdline").read_bytes().split(b"\0")[0]
            if names.intersection(environment) and b"tini" not in program:
                found.append(int(folder.name))
    return sorted(found)
