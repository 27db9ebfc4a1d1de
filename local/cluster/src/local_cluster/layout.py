"""The paths and addresses of the cluster.

Invariant: everything that a running cluster creates is under `live` (or has a name from this module), so that the
remains of a killed cluster can be distinguished from everything else on the machine. The paths do not depend on the
clone of the repository: a second clone finds and repairs the cluster of the first.
"""

import os
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

STATE_VARIABLE = "EVENTCONSUMER_CLUSTER_DIR"
DEFAULT_STATE = Path("/var/lib/eventconsumer-cluster")
REPOSITORY = Path(__file__).resolve().parents[4]
TOOL_MODULES = REPOSITORY / "local" / "cluster" / "tools"

NODE_NAME = "local"
CLUSTER_DOMAIN = "cluster.local"
CNI_NETWORK = "eventconsumer"
NODE_ADDRESS = IPv4Address("10.201.255.1")
POD_ADDRESSES = IPv4Network("10.201.0.0/24")
SERVICE_ADDRESSES = IPv4Network("10.201.1.0/24")


@dataclass(frozen=True)
class Network:
    """The addresses of the cluster: none of them is reachable from, or depends on, another machine.

    Attributes:
        interface: Carries the node's address. A bridge without ports, because every kernel that runs containers has
            bridges.
        node: The address that all control-plane ports are bound to.
        pods: Given out to pods, each on its own routed veth pair.
        services: Virtual; routed to `interface` so that programs of the host reach services, too.
        chain: The iptables chain that keeps pods inside the cluster.
    """

    interface: str = "ecnode0"
    node: IPv4Address = NODE_ADDRESS
    pods: IPv4Network = POD_ADDRESSES
    services: IPv4Network = SERVICE_ADDRESSES
    chain: str = "EVENTCONSUMER-FORWARD"

    @property
    def api_service(self) -> IPv4Address:
        """The address of the Service `kubernetes`: the first of the range."""
        return self.services[1]

    @property
    def api_url(self) -> str:
        """The API server's URL, for pods and for the host."""
        return f"https://{self.node}:{Ports.api}"


class Ports:
    """Ports on the node's address."""

    dns = 53
    etcd = 2379
    etcd_peer = 2380
    api = 6443
    dns_ready = 8181
    kubelet_health = 10248
    kubelet = 10250
    proxy_health = 10256
    controller_manager = 10257
    scheduler = 10259

    @classmethod
    def all(cls) -> frozenset[int]:
        """Every port the cluster listens on."""
        return frozenset(port for name, port in vars(cls).items() if isinstance(port, int) and not name.startswith("_"))


@dataclass(frozen=True)
class Layout:
    """Paths of one cluster.

    Attributes:
        state: Root of everything below; owned by root, mode 0700.
        cache: Per-user cache of built binaries; shared by all clones, never removed by us.
    """

    state: Path
    cache: Path

    @classmethod
    def from_environment(cls) -> "Layout":
        """The layout from the environment, with the defaults of the module."""
        cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(state=Path(os.environ.get(STATE_VARIABLE) or DEFAULT_STATE), cache=cache_home / "eventconsumer")

    @property
    def live(self) -> Path:
        """Files that are removed with the cluster; the folder exists if a cluster runs or was killed."""
        return self.state / "live"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; exists while the cluster does."""
        return self.state / "kubeconfig"

    @property
    def forwarding(self) -> Path:
        """Record that the cluster enabled forwarding; it is removed when the setting is put back."""
        return self.state / "forwarding"

    @property
    def containerd_root(self) -> Path:
        """containerd's content store; outlives the cluster, so that images are imported once."""
        return self.state / "containerd"

    @property
    def build_storage(self) -> Path:
        """buildah's images and layers; outlives the cluster."""
        return self.state / "buildah"

    @property
    def bin(self) -> Path:
        """Links to kubectl and helm, for `PATH`; in the cache, for they serve with other clusters, too."""
        return self.cache / "path"

    @property
    def lock(self) -> Path:
        """Held while the cluster is started or stopped."""
        return self.state / "lock"

    @property
    def build_lock(self) -> Path:
        """Held while images are built."""
        return self.state / "build.lock"

    @property
    def logs(self) -> Path:
        """One log file a process, and one a build step."""
        return self.live / "logs"

    @property
    def build_logs(self) -> Path:
        """Logs of tool and image builds; in the cache, for they happen without a cluster, too."""
        return self.cache / "logs"

    @property
    def records(self) -> Path:
        """One JSON file a process: its pid and start time."""
        return self.live / "processes"

    @property
    def config(self) -> Path:
        """Rendered configuration files."""
        return self.live / "config"

    @property
    def pki(self) -> Path:
        """Keys and certificates, created for each cluster."""
        return self.live / "pki"

    @property
    def containerd_socket(self) -> Path:
        """containerd's address; shims carry it on their command line, which makes them recognisable."""
        return self.live / "run" / "containerd.sock"

    @property
    def fingerprint(self) -> Path:
        """Fingerprint of the running cluster; see `cluster.fingerprint`."""
        return self.live / "fingerprint"
