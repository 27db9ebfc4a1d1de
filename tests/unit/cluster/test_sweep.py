"""What a killed cluster left behind is told from what belongs to others."""

from pathlib import Path

from local_cluster.host import foreign_kubernetes, lacking_capabilities
from local_cluster.procfs import Identity, Process
from local_cluster.sweep import mounts_below, own_processes

LIVE = Path("/var/lib/eventconsumer-cluster/live")


def process(*argv: str) -> Process:
    return Process(Identity(1, 1), 1, "S", argv)


def test_own_processes_are_known_by_program_and_path() -> None:
    ours = [
        process("/cache/kubelet", f"--config={LIVE}/config/kubelet.yaml"),
        process("/usr/bin/containerd-shim-runc-v2", "-address", f"{LIVE}/run/containerd.sock", "-id", "x"),
    ]
    others = [
        process("less", f"{LIVE}/logs/kubelet.log"),
        process("/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml"),
        process("/usr/bin/containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock"),
        process("/cache/kubelet", f"--config={LIVE}-of-another/config/kubelet.yaml"),
        process(),
    ]
    assert own_processes([*ours, *others], LIVE, ["kubelet", "containerd"]) == ours


def test_another_kubelet_is_foreign_and_ours_is_not() -> None:
    foreign = process("/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml")
    assert foreign_kubernetes([foreign, process("/cache/kubelet", f"--root-dir={LIVE}/kubelet")], LIVE) == [foreign]


def test_mounts_are_found_deepest_first_and_only_below() -> None:
    info = f"""\
22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:30 / {LIVE} rw - tmpfs tmpfs rw
31 30 0:31 / {LIVE}/kubelet/pods/a\\040b/volumes rw - tmpfs tmpfs rw
32 31 0:32 / {LIVE}/kubelet/pods/a\\040b/volumes/deep rw - tmpfs tmpfs rw
33 22 0:33 / {LIVE}-other/x rw - tmpfs tmpfs rw
"""
    assert mounts_below(info, LIVE) == [f"{LIVE}/kubelet/pods/a b/volumes/deep", f"{LIVE}/kubelet/pods/a b/volumes"]


def test_lacking_capabilities_are_named() -> None:
    assert lacking_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n") == []
    assert lacking_capabilities("CapEff:\t00000000a80425fb\n") == ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]
