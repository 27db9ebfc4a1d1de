"""PURE: the processes of the cluster: command lines, order, and readiness probes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from local_cluster.layout import NODE_NAME, Layout, Network, Ports


@dataclass(frozen=True)
class HttpProbe:
    """Ready when this URL returns 200.

    Attributes:
        url: http or https; https is verified against the authority.
        authority: File name of the authority in the pki directory.
        client: Name of a client certificate in the pki directory, if the server asks for one.
    """

    url: str
    authority: str = "ca.crt"
    client: str | None = None


@dataclass(frozen=True)
class SocketProbe:
    """Ready when a connection to this Unix socket is accepted."""

    path: Path


@dataclass(frozen=True)
class Component:
    """One process.

    Attributes:
        name: Unique; names the log and the record.
        argv: Program and arguments; every command line holds a path below `live`, which makes the process recognisable.
        probe: Its readiness probe.
        wave: Processes of one wave start together, the next wave when all of them are ready.
        patience: Timeout for readiness in seconds, sufficient on a slow machine.
    """

    name: str
    argv: tuple[str, ...]
    probe: HttpProbe | SocketProbe
    wave: int
    patience: float = 120.0


def components(layout: Layout, network: Network, binary: Callable[[str], Path]) -> tuple[Component, ...]:
    """All processes of the cluster, in starting order; they stop in the opposite order.

    Args:
        layout: The paths.
        network: The addresses.
        binary: Returns the path of a built binary.
    """
    return (
        _etcd(layout, network, binary("etcd")),
        _containerd(layout),
        _api_server(layout, network, binary("kube-apiserver")),
        _controller_manager(layout, network, binary("kube-controller-manager")),
        _scheduler(layout, network, binary("kube-scheduler")),
        _kubelet(layout, network, binary("kubelet")),
        _proxy(layout, network, binary("kube-proxy")),
        _coredns(layout, network, binary("coredns")),
    )


def _etcd(layout: Layout, network: Network, program: Path) -> Component:
    pki, url, peer = layout.pki, f"https://{network.node}:{Ports.etcd}", f"https://{network.node}:{Ports.etcd_peer}"
    argv = (
        str(program),
        "--name=local",
        f"--data-dir={layout.live}/etcd",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        f"--cert-file={pki}/etcd.crt",
        f"--key-file={pki}/etcd.key",
        "--client-cert-auth",
        f"--trusted-ca-file={pki}/etcd-ca.crt",
        f"--peer-cert-file={pki}/etcd.crt",
        f"--peer-key-file={pki}/etcd.key",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={pki}/etcd-ca.crt",
        "--unsafe-no-fsync",  # the data ends with the cluster; it need not survive a power cut
        "--log-level=warn",
    )
    return Component("etcd", argv, HttpProbe(f"{url}/health", "etcd-ca.crt", "apiserver-etcd-client"), wave=0)


def _containerd(layout: Layout) -> Component:
    argv = ("containerd", f"--config={layout.config}/containerd.toml")
    return Component("containerd", argv, SocketProbe(layout.containerd_socket), wave=0)


def _api_server(layout: Layout, network: Network, program: Path) -> Component:
    pki = layout.pki
    argv = (
        str(program),
        f"--bind-address={network.node}",
        f"--advertise-address={network.node}",
        f"--secure-port={Ports.api}",
        f"--tls-cert-file={pki}/serving.crt",
        f"--tls-private-key-file={pki}/serving.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--etcd-servers=https://{network.node}:{Ports.etcd}",
        f"--etcd-cafile={pki}/etcd-ca.crt",
        f"--etcd-certfile={pki}/apiserver-etcd-client.crt",
        f"--etcd-keyfile={pki}/apiserver-etcd-client.key",
        f"--service-cluster-ip-range={network.services}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-account.pub",
        f"--service-account-signing-key-file={pki}/service-account.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",  # the node's name resolves nowhere
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
    )
    return Component("kube-apiserver", argv, HttpProbe(f"{network.api_url}/readyz"), wave=0)


def _controller_manager(layout: Layout, network: Network, program: Path) -> Component:
    pki = layout.pki
    argv = (
        str(program),
        f"--kubeconfig={pki}/kube-controller-manager.kubeconfig",
        f"--bind-address={network.node}",
        f"--secure-port={Ports.controller_manager}",
        f"--tls-cert-file={pki}/serving.crt",
        f"--tls-private-key-file={pki}/serving.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/service-account.key",
        "--use-service-account-credentials",
        "--leader-elect=false",  # there is one
        "--terminated-pod-gc-threshold=50",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--profiling=false",
    )
    probe = HttpProbe(f"https://{network.node}:{Ports.controller_manager}/healthz")
    return Component("kube-controller-manager", argv, probe, wave=1)


def _scheduler(layout: Layout, network: Network, program: Path) -> Component:
    pki = layout.pki
    argv = (
        str(program),
        f"--kubeconfig={pki}/kube-scheduler.kubeconfig",
        f"--bind-address={network.node}",
        f"--secure-port={Ports.scheduler}",
        f"--tls-cert-file={pki}/serving.crt",
        f"--tls-private-key-file={pki}/serving.key",
        "--leader-elect=false",
        "--profiling=false",
    )
    return Component("kube-scheduler", argv, HttpProbe(f"https://{network.node}:{Ports.scheduler}/healthz"), wave=1)


def _kubelet(layout: Layout, network: Network, program: Path) -> Component:
    argv = (
        str(program),
        f"--config={layout.config}/kubelet.yaml",
        f"--kubeconfig={layout.pki}/kubelet.kubeconfig",
        f"--root-dir={layout.live}/kubelet",
        f"--cert-dir={layout.live}/kubelet/pki",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={network.node}",
    )
    return Component("kubelet", argv, HttpProbe(f"http://{network.node}:{Ports.kubelet_health}/healthz"), wave=1)


def _proxy(layout: Layout, network: Network, program: Path) -> Component:
    argv = (str(program), f"--config={layout.config}/kube-proxy.yaml", f"--hostname-override={NODE_NAME}")
    # /livez: /healthz is also unhealthy while the node object is still unknown
    return Component("kube-proxy", argv, HttpProbe(f"http://{network.node}:{Ports.proxy_health}/livez"), wave=1)


def _coredns(layout: Layout, network: Network, program: Path) -> Component:
    argv = (str(program), f"-conf={layout.config}/Corefile")
    return Component("coredns", argv, HttpProbe(f"http://{network.node}:{Ports.dns_ready}/ready"), wave=1)
