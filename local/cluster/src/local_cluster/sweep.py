"""Remove the remains of a cluster: processes, mounts, namespaces, cgroups, rules, files.

`down` and the cleanup after a crash use the same steps, so every `down` exercises the cleanup. Each step finds its
objects by the state directory or by the cluster's names, and ignores missing ones.
"""

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from local_cluster import network, procfs
from local_cluster.errors import CommandFailed, LeftoverStuck
from local_cluster.forwarding import Forwarding
from local_cluster.layout import Layout, Network
from local_cluster.procfs import Process
from local_cluster.shell import run

_SHIM = "containerd-shim"
_CGROUPS = Path("/sys/fs/cgroup")
_CNI_RESULTS = Path("/var/lib/cni/results")  # libcni's cache; its place cannot be configured
_LOG_LINKS = Path("/var/log/containers")  # the kubelet's links for log collectors; likewise


def own_processes(processes: Iterable[Process], live: Path, programs: Iterable[str]) -> list[Process]:
    """The cluster's own processes and containerd's shims, recorded or not.

    Args:
        processes: All processes of the machine.
        live: Every command line of the cluster contains a path below it.
        programs: Names of the cluster's programs, which exclude a pager that shows one of its logs.
    """
    names = set(programs)

    def names_live(word: str) -> bool:
        return bool(re.search(rf"(^|=|//){re.escape(str(live))}/", word))

    return [
        process
        for process in processes
        if (process.program in names or process.program.startswith(_SHIM)) and any(map(names_live, process.argv))
    ]


def mounts_below(mountinfo: str, folder: Path) -> list[str]:
    """Mount points below a folder, deepest first.

    Args:
        mountinfo: Text of /proc/self/mountinfo, in which blanks are written as \\040.
        folder: Its own mount point, if it is one, does not count.
    """
    points = [
        re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in mountinfo.splitlines()
    ]
    return [point for point in reversed(points) if point.startswith(f"{folder}/")]


def kill_processes(layout: Layout, programs: Iterable[str]) -> int:
    """Kill all remaining processes: the cluster's programs, shims, and every process in a container below a shim.

    Returns:
        Their number.

    Raises:
        LeftoverStuck: A process survives.
    """
    names = list(programs)
    count = 0
    for _ in range(50):  # a dying shim may start a cleaner, a dying container may fork: look until none is found
        processes = list(procfs.all_processes())
        roots = own_processes(processes, layout.live, names)
        below = procfs.descendants((root.identity for root in roots if root.program.startswith(_SHIM)), processes)
        victims = [process for process in [*roots, *below, *_in_pod_cgroups()] if process.state != "Z"]
        if not victims:
            return count
        count += sum(procfs.send(victim.identity, signal.SIGKILL) for victim in victims)
        time.sleep(0.1)
    raise LeftoverStuck(
        "These processes of the cluster survive SIGKILL: "
        + ", ".join(f"{victim.program} (pid {victim.identity.pid})" for victim in victims)
        + ". They hang in the kernel; a restart of the machine frees them."
    )


def unmount(folder: Path) -> int:
    """Unmount everything below a folder.

    Returns:
        The number of mounts.

    Raises:
        LeftoverStuck: A mount cannot be removed.
    """
    found = mounts_below(Path("/proc/self/mountinfo").read_text(), folder)
    for point in found:
        try:
            run(["umount", point])
        except CommandFailed:
            with contextlib.suppress(CommandFailed):
                run(["umount", "--lazy", point])
    if left := mounts_below(Path("/proc/self/mountinfo").read_text(), folder):
        raise LeftoverStuck(f"Still mounted after umount --lazy: {', '.join(left)}. `fuser -vm` shows their users.")
    return len(found)


def remove_cgroups() -> None:
    """Remove the empty cgroups of former pods, deepest first."""
    for root in _pod_cgroups():
        for folder, _, _ in os.walk(root, topdown=False):
            with contextlib.suppress(OSError):  # a busy one belongs to a process that is just ending; it is harmless
                Path(folder).rmdir()


def remove_files(layout: Layout) -> None:
    """Remove the files of the cluster, but not the images; nothing may be mounted below any more."""
    if _CNI_RESULTS.is_dir():
        for result in _CNI_RESULTS.iterdir():
            if f"{layout.live}/" in result.read_text(errors="replace"):  # it names the pod's network namespace
                result.unlink(missing_ok=True)
    if _LOG_LINKS.is_dir():
        for link in _LOG_LINKS.iterdir():
            if link.is_symlink() and str(link.readlink()).startswith(f"{layout.live}/"):
                link.unlink(missing_ok=True)
    layout.kubeconfig.unlink(missing_ok=True)
    if layout.live.exists():
        shutil.rmtree(layout.live)


def remove_folders(folders: Iterable[Path]) -> None:
    """Remove folders that may hold mounts."""
    for folder in folders:
        unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def sweep(layout: Layout, addresses: Network, programs: Iterable[str]) -> list[str]:
    """All steps except the removal of files.

    Returns:
        The removed objects, for the user.
    """
    found = []
    if count := kill_processes(layout, programs):
        found.append(f"{count} processes")
    if count := unmount(layout.live) + unmount(layout.containerd_root):
        found.append(f"{count} mounts")
    network.tear_down(addresses, Forwarding(layout.forwarding))
    remove_cgroups()
    return found


def _pod_cgroups() -> list[Path]:
    """`kubepods` in the one hierarchy of cgroup v2, or in each of v1."""
    return [
        path
        for path in (_CGROUPS / "kubepods", *_CGROUPS.glob("*/kubepods"))
        if path.is_dir() and not path.is_symlink()
    ]


def _in_pod_cgroups() -> list[Process]:
    """Processes of pods without a shim; no other Kubernetes runs on this machine, so all pods are ours."""
    pids = set()
    for root in _pod_cgroups():
        for file in root.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                pids |= {int(word) for word in file.read_text().split()}
    return [process for pid in pids if (process := procfs.observe(pid)) is not None]
