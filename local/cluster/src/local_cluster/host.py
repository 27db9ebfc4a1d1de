"""Check the capabilities of the machine, before the start."""

import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from local_cluster import procfs
from local_cluster.errors import Conflict, HostUnfit
from local_cluster.procfs import Process
from local_cluster.render import HostTraits
from local_cluster.shell import succeeds

# bit numbers of linux/capability.h
NEEDED_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_SYS_CHROOT": 18, "CAP_MKNOD": 27}
_CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")


def lacking_capabilities(status: str) -> list[str]:
    """The needed capabilities that a process does not have.

    Args:
        status: Text of /proc/<pid>/status.
    """
    effective = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return [name for name, bit in NEEDED_CAPABILITIES.items() if not effective >> bit & 1]


def check_rights() -> None:
    """Check that containers can be started.

    Raises:
        HostUnfit: Capabilities are missing; the message lists all of them.
    """
    if os.geteuid() != 0:
        raise HostUnfit(
            "The local cluster starts containers and must run as root; this is user "
            f"{os.geteuid()}. Retry with sudo, or point the demo at a cluster you have (CLUSTER=current)."
        )
    reasons = []
    if lacking := lacking_capabilities(Path("/proc/self/status").read_text()):
        reasons.append(f"root lacks {', '.join(lacking)} here (a container without --privileged?)")
    cgroups = Path("/sys/fs/cgroup")
    hierarchy = cgroups if (cgroups / "cgroup.controllers").exists() else cgroups / "memory"
    if not os.access(hierarchy, os.W_OK) or not hierarchy.is_dir():
        reasons.append(f"{hierarchy} cannot be written, so pods cannot be given cgroups")
    if not Path("/dev/kmsg").exists():
        reasons.append("/dev/kmsg is missing, which the kubelet reads (in a container: --device /dev/kmsg)")
    if reasons:
        raise HostUnfit("This machine cannot run a cluster: " + "; ".join(reasons) + ".")


def foreign_kubernetes(processes: Iterable[Process], own_folder: Path) -> list[Process]:
    """Kubelets and kube-proxies of other clusters, which would conflict over iptables chains and cgroups.

    Args:
        processes: All processes of the machine.
        own_folder: A part of the command line of each process of this cluster.
    """
    return [
        process
        for process in processes
        if process.program in {"kubelet", "kube-proxy", "k3s", "microk8s"}
        and not any(str(own_folder) in word for word in process.argv)
    ]


def check_alone(own_folder: Path) -> None:
    """Check that no other Kubernetes runs on this machine.

    Raises:
        Conflict: Another Kubernetes runs.
    """
    if others := foreign_kubernetes(procfs.all_processes(), own_folder):
        names = ", ".join(f"{process.program} (pid {process.identity.pid})" for process in others)
        raise Conflict(
            f"Another Kubernetes runs on this machine: {names}. Two of them fight over iptables and cgroups: "
            "stop it, or use it (CLUSTER=current)."
        )


def traits(state: Path) -> HostTraits:
    """Probe the capabilities of the machine.

    Args:
        state: The state directory; overlay mounts are tried there.
    """
    folders = [folder for folder in _CNI_FOLDERS if (Path(folder) / "ptp").exists()]
    if not folders:
        raise HostUnfit(
            f"The CNI plugin `ptp` is in none of {', '.join(_CNI_FOLDERS)}. Install the CNI reference plugins."
        )
    return HostTraits(
        may_lower_oom_score=_may_lower_oom_score(),
        snapshotter="overlayfs" if overlay_works(state) else "native",
        cni_plugins=folders[0],
    )


def overlay_works(folder: Path) -> bool:
    """Whether an overlay can be mounted on directories below `folder` (not so where they are an overlay themselves)."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".overlay-", dir=folder) as scratch:
        base = Path(scratch)
        for name in ("lower", "upper", "work", "merged"):
            (base / name).mkdir()
        options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
        if not succeeds(["mount", "-t", "overlay", "overlay", "-o", options, base / "merged"]):
            return False
        return succeeds(["umount", base / "merged"])


def _may_lower_oom_score() -> bool:
    """Test it in a separate process, because a lowered score would stay."""
    attempt = subprocess.run(
        ["sh", "-c", "echo -999 >/proc/self/oom_score_adj"], stderr=subprocess.DEVNULL, check=False
    )
    return attempt.returncode == 0
