"""Configuration files, command lines, certificates."""

import datetime
import json
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from local_cluster.components import HttpProbe, components
from local_cluster.layout import Layout, Network, Ports
from local_cluster.pki import CLIENTS, write_pki
from local_cluster.render import HostTraits, config_files, containerd

LAYOUT = Layout(state=Path("/state"), cache=Path("/cache"))
FULL = HostTraits(may_lower_oom_score=True, snapshotter="overlayfs", cni_plugins="/usr/lib/cni")
CONFINED = HostTraits(may_lower_oom_score=False, snapshotter="native", cni_plugins="/opt/cni/bin")


def binary(name: str) -> Path:
    return Path("/cache/bin") / name


@pytest.mark.parametrize("traits", [FULL, CONFINED])
def test_files_parse_and_follow_the_machine(traits: HostTraits) -> None:
    files = config_files(LAYOUT, Network(), traits, "localhost/pause:1")
    cri = tomllib.loads(files["containerd.toml"])["plugins"]["io.containerd.grpc.v1.cri"]
    kubelet = yaml.safe_load(files["kubelet.yaml"])
    assert cri["restrict_oom_score_adj"] is not traits.may_lower_oom_score
    assert cri["containerd"]["snapshotter"] == traits.snapshotter
    assert cri["cni"]["bin_dir"] == traits.cni_plugins
    assert kubelet["oomScoreAdj"] == (-999 if traits.may_lower_oom_score else 0)
    assert json.loads(files["cni/10-eventconsumer.conflist"])["plugins"][0]["ipam"]["ranges"] == [
        [{"subnet": "10.201.0.0/24"}]
    ]


def test_the_sweeping_containerd_recovers_no_pods() -> None:
    def disabled(*, with_pods: bool) -> list[str]:
        return list(tomllib.loads(containerd(LAYOUT, FULL, "p", with_pods=with_pods))["disabled_plugins"])

    assert "io.containerd.grpc.v1.cri" in disabled(with_pods=False)
    assert "io.containerd.grpc.v1.cri" not in disabled(with_pods=True)


def test_every_command_line_names_the_live_directory_and_ports_are_distinct() -> None:
    for component in components(LAYOUT, Network(), binary):
        assert any(f"={LAYOUT.live}/" in word for word in component.argv), component.name
    assert len(Ports.all()) == sum(1 for name in vars(Ports) if not name.startswith("_") and name != "all")


def test_nothing_listens_beyond_the_node() -> None:
    network = Network()
    text = json.dumps(config_files(LAYOUT, network, FULL, "p")) + repr(components(LAYOUT, network, binary))
    assert "0.0.0.0:" not in text
    assert "address=0.0.0.0" not in text
    probed = {
        component.probe.url.split("/")[2].split(":")[0]
        for component in components(LAYOUT, network, binary)
        if isinstance(component.probe, HttpProbe)
    }
    assert probed == {str(network.node)}


def test_certificates_have_the_names_and_issuers_that_kubernetes_expects(tmp_path: Path) -> None:
    network, pki = Network(), tmp_path / "pki"
    write_pki(pki, network, datetime.datetime.now(datetime.UTC))

    def verified(certificate: str, authority: str) -> bool:
        command = ["openssl", "verify", "-CAfile", pki / f"{authority}.crt", pki / f"{certificate}.crt"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    serving = x509.load_pem_x509_certificate((pki / "serving.crt").read_bytes())
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    assert set(names.get_values_for_type(x509.IPAddress)) == {network.node, network.api_service}
    assert verified("serving", "ca") and verified("kubelet", "ca")
    assert verified("etcd", "etcd-ca") and verified("apiserver-etcd-client", "etcd-ca")
    assert not verified("kubelet", "etcd-ca"), "a kubelet's certificate opens etcd"
    assert all(path.stat().st_mode & 0o077 == 0 for path in pki.glob("*.key"))
    for client in CLIENTS:
        config = yaml.safe_load((pki / f"{client}.kubeconfig").read_text())
        assert config["clusters"][0]["cluster"]["server"] == network.api_url
