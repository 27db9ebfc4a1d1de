"""PURE: the configuration files of the cluster, as text.

This module does not read the machine's state: `HostTraits` contains it. Each setting that differs from a cloud cluster
has a comment with the reason.
"""

import json
from dataclasses import dataclass
from typing import Any

import yaml

from local_cluster.layout import CLUSTER_DOMAIN, CNI_NETWORK, Layout, Network, Ports


@dataclass(frozen=True)
class HostTraits:
    """Capabilities of the machine.

    Attributes:
        may_lower_oom_score: Whether processes may be protected from the out-of-memory killer (CAP_SYS_RESOURCE).
        snapshotter: containerd's `overlayfs`, or `native` where overlay mounts do not work on the state directory.
        cni_plugins: Folder of the CNI plugins.
    """

    may_lower_oom_score: bool
    snapshotter: str
    cni_plugins: str


def config_files(layout: Layout, network: Network, traits: HostTraits, pause_image: str) -> dict[str, str]:
    """All files of the `config` directory.

    Args:
        layout: The paths.
        network: The addresses.
        traits: Capabilities of the machine.
        pause_image: Reference of the image that holds a pod's namespaces.

    Returns:
        Content by file name relative to `layout.config`.
    """
    return {
        "containerd.toml": containerd(layout, traits, pause_image),
        "cni/10-eventconsumer.conflist": json.dumps(cni(layout, network), indent=2),
        "kubelet.yaml": yaml.safe_dump(kubelet(layout, network, traits), sort_keys=False),
        "kube-proxy.yaml": yaml.safe_dump(kube_proxy(layout, network, traits), sort_keys=False),
        "Corefile": corefile(layout, network),
        "resolv.conf": "# Pods resolve names of the cluster only.\n",
        "bootstrap.yaml": yaml.safe_dump_all(bootstrap_objects(), sort_keys=False),
    }


def containerd(layout: Layout, traits: HostTraits, pause_image: str, *, with_pods: bool = True) -> str:
    """containerd's configuration (version 2: understood by 1.5 up to 2.x).

    Args:
        layout: Root, state and socket.
        traits: Capabilities of the machine.
        pause_image: Reference of the sandbox image.
        with_pods: False leaves the CRI plugin out: containers of a dead cluster can then be removed without being
            recovered.
    """
    disabled = [
        "io.containerd.internal.v1.opt",
        "io.containerd.snapshotter.v1.devmapper",
        "io.containerd.snapshotter.v1.btrfs",
    ]
    if not with_pods:
        disabled.append("io.containerd.grpc.v1.cri")
    return f"""\
version = 2
root = "{layout.containerd_root}"
state = "{layout.live}/run/containerd"
disabled_plugins = {json.dumps(disabled)}
oom_score = 0

[grpc]
  address = "{layout.containerd_socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  # Without the right to lower the score, runc cannot start a pod's first process.
  restrict_oom_score_adj = {str(not traits.may_lower_oom_score).lower()}
  # Network namespaces lie below the state directory, where `down` finds those of a killed cluster.
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{traits.snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{traits.cni_plugins}"
    conf_dir = "{layout.config}/cni"
"""


def cni(layout: Layout, network: Network) -> dict[str, Any]:
    """One routed veth pair a pod.

    Routed rather than bridged: between two ports of a bridge, answers would bypass the translation of service
    addresses unless the kernel has br_netfilter, and not every kernel has.
    """
    return {
        "cniVersion": "1.0.0",
        "name": CNI_NETWORK,
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "mtu": 1500,
                "ipam": {
                    "type": "host-local",
                    "dataDir": f"{layout.live}/cni",
                    "ranges": [[{"subnet": str(network.pods)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }


def kubelet(layout: Layout, network: Network, traits: HostTraits) -> dict[str, Any]:
    """The kubelet's configuration."""
    # A laptop's disk is often nearly full; images cannot be pulled again, so neither eviction nor image collection
    # may start early.
    floor = {"memory.available": "64Mi"} | {
        f"{fs}.{what}": "1%" for fs in ("nodefs", "imagefs") for what in ("available", "inodesFree")
    }
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(network.node),
        "port": Ports.kubelet,
        "healthzBindAddress": str(network.node),
        "healthzPort": Ports.kubelet_health,
        "tlsCertFile": f"{layout.pki}/serving.crt",
        "tlsPrivateKeyFile": f"{layout.pki}/serving.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{layout.pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [str(network.node)],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": f"{layout.config}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": -999 if traits.may_lower_oom_score else 0,
        "podLogsDir": f"{layout.live}/pod-logs",
        "volumePluginDir": f"{layout.live}/volume-plugins",
        "evictionHard": floor,
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        "kubeAPIQPS": 50,
        "kubeAPIBurst": 100,
        "eventRecordQPS": 50,
        # Changes of Secrets and ConfigMaps reach pods in seconds: tests wait for them.
        "syncFrequency": "5s",
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "nodeStatusUpdateFrequency": "5s",
        # A killed container restarts soon, also the fifth time: tests kill containers.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"},
    }


def kube_proxy(layout: Layout, network: Network, traits: HostTraits) -> dict[str, Any]:
    """kube-proxy's configuration: iptables mode."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": f"{layout.pki}/kube-proxy.kubeconfig"},
        "clusterCIDR": str(network.pods),
        "healthzBindAddress": f"{network.node}:{Ports.proxy_health}",
        "metricsBindAddress": "",
        "nodePortAddresses": [f"{network.node}/32"],
        "iptables": {"localhostNodePorts": False, "minSyncPeriod": "100ms"},
        "conntrack": {"maxPerCore": 0},  # leaves the host's table size alone
        "oomScoreAdj": -999 if traits.may_lower_oom_score else 0,
    }


def corefile(layout: Layout, network: Network) -> str:
    """CoreDNS' configuration: names of the cluster, and NXDOMAIN for all others."""
    return f"""\
{CLUSTER_DOMAIN} {network.pods.with_prefixlen} {network.services.with_prefixlen} {{
    bind {network.node}
    errors
    ready {network.node}:{Ports.dns_ready}
    cache 5
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {layout.pki}/coredns.kubeconfig eventconsumer-local
        ttl 2
    }}
}}
. {{
    bind {network.node}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def bootstrap_objects() -> list[dict[str, Any]]:
    """The objects of every cluster: permissions of CoreDNS."""
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "eventconsumer:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "eventconsumer:coredns"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "eventconsumer:coredns",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eventconsumer:coredns"}],
        },
    ]
