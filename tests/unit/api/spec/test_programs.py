"""Variables and folders that user code may have: none by which it could change what our programs do."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.mounts import proxy_environment
from eventconsumer_api.spec.programs import OWN_ENV_WORDS, EnvVar, IpBlock, ProgramVolume, env_prefixes
from eventconsumer_api.v1alpha1 import Processing
from eventconsumer_api.wire.host_config import ProxyConfig

ROOT = Path(__file__).parents[4]


def test_without_the_administrator_there_is_one_prefix() -> None:
    assert env_prefixes(()) == ("APP_",)
    assert env_prefixes(("SHOP_", "APP_")) == ("APP_", "SHOP_")


def test_no_administrator_allows_names_that_our_pods_have_already() -> None:
    """Those of the operator and of the images; Kubernetes and the webhook of workload identity add theirs."""
    own = [value for name, value in vars(labels).items() if name.endswith("_ENV")]
    images = [*ROOT.glob("*/Dockerfile")]
    assert len(images) > 2
    for image in images:
        for text in re.findall(r"^ENV (.*(?:\\\n.*)*)", image.read_text(), re.MULTILINE):
            own += re.findall(r"(\w+)=", text)
    proxy = ProxyConfig(url="http://proxy.example:3128", no_proxy=(), credential=None)
    own += [*proxy_environment(proxy), "SPARK_LOCAL_DIRS", "POD_IP", "POD_NAMESPACE"]
    assert {"EVENTCONSUMER_CONFIG_JSON", "POD_NAME", "MALLOC_ARENA_MAX", "HTTPS_PROXY"} <= set(own)
    # A prefix ends with an underscore: so no prefix begins PATH or PYTHONPATH.
    assert {name.partition("_")[0] for name in own if "_" in name} <= set(OWN_ENV_WORDS)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A.B", "A B", "A=B", "A\n", "Ä"])
def test_a_name_is_one_that_every_shell_knows(name: str) -> None:
    with pytest.raises(ValidationError):
        EnvVar(name=name, value="x")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/config",
        "/config/",
        "config/a",
        "/config/a/b",
        "/config/..",
        "/config/a/../../etc",
        "/configs/a",
        "/app",
        "/tmp",
        "/tmp/a",
        "/etc/eventconsumer",
        "/usr/lib",
        "/opt/venv",
        "/opt/spark/conf",
        "/proc/1",
        labels.SECRETS_DIR,
        f"{labels.SECRETS_DIR}/event-hub",
        "/var/run/secrets",
        "/run/secrets",
        "/mnt/a\n",
    ],
)
def test_folders_are_below_allowed_folders(path: str) -> None:
    with pytest.raises(ValidationError):
        ProgramVolume(mount_path=path)


@given(path=st.from_regex(r"/(config|secrets|mnt)/[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True))
def test_volumes_of_different_folders_have_different_names_which_kubernetes_accepts(path: str) -> None:
    name = ProgramVolume(mount_path=path).volume_name
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert "/" + name.replace("-", "/", 1) == path


@pytest.mark.parametrize("cidr", ["10.0.0.0", "10.1.2.3/8", "everywhere", "10.0.0.0/33", ""])
def test_a_range_is_a_network(cidr: str) -> None:
    with pytest.raises(ValidationError):
        IpBlock(cidr=cidr)


def test_hosts_get_no_inputs_of_their_pods() -> None:
    given = {
        "handler": "a:B",
        "image": "shop:1",
        "env": [{"name": "APP_A", "value": "b"}],
        "envFrom": [{"prefix": "APP_", "secretRef": {"name": "s"}}],
        "volumes": [{"mountPath": "/mnt/a", "configMap": {"name": "c"}}],
        "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 1}]}],
    }
    kept = Processing.model_validate(given).for_hosts().model_dump(by_alias=True, exclude_defaults=True)
    assert not {"env", "envFrom", "volumes", "egress"} & kept.keys()
    assert kept["handler"] == "a:B"
