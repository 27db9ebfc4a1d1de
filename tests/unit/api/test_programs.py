"""Names of variables and folders that user code may have: none by which it could change what our programs do."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eventconsumer_api import labels
from eventconsumer_api.programs import (
    RESERVED_ENV_NAMES,
    RESERVED_ENV_PREFIXES,
    EnvFrom,
    EnvVar,
    IpBlock,
    ProgramVolume,
    is_reserved_env,
    is_reserved_prefix,
)
from eventconsumer_api.v1alpha1 import Processing

RESERVED = [
    "PYTHONPATH", "LD_PRELOAD", "OPENSSL_CONF", "SSL_CERT_FILE", "SSLKEYLOGFILE", "REQUESTS_CA_BUNDLE", "GCONV_PATH",
    "AZURE_CLIENT_ID", "IDENTITY_ENDPOINT", "HTTPS_PROXY", "https_proxy", "no_proxy", "Path", "HOME", "HOSTALIASES",
    "KUBERNETES_SERVICE_HOST", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_CONF_DIR", "PYSPARK_PYTHON",
    "SHELLOPTS", "PS4", "CONTAINER_ID",
    "HADOOP_CONF_DIR", "MALLOC_ARENA_MAX", "ARROW_DEFAULT_MEMORY_POOL", "POD_NAME", "POD_UID", "POD_IP",
    labels.CONFIG_ENV, labels.BATCH_JOB_ENV, labels.BATCH_MANIFEST_ENV, "EVENTCONSUMER_CONFIG", "EVENTCONSUMER_PORT",
]  # fmt: skip
FREE = ["SHOP_DATABASE", "PGPASSWORD", "REDIS_URL", "ENVIRONMENT", "PATHS", "HOMEPAGE", "SSLMODE", "JAVASCRIPT", "a1"]


@pytest.mark.parametrize("name", RESERVED)
def test_names_that_programs_of_the_pod_read_are_reserved(name: str) -> None:
    assert is_reserved_env(name)


@pytest.mark.parametrize("name", FREE)
def test_names_of_applications_are_free(name: str) -> None:
    assert not is_reserved_env(name)


@given(
    prefix=st.from_regex(r"[A-Za-z][A-Za-z_]{1,6}_", fullmatch=True)
    | st.sampled_from([name[:end] for name in RESERVED for end in range(3, len(name)) if name[end - 1] == "_"]),
    data=st.data(),
)
def test_no_key_makes_a_reserved_name_of_an_allowed_prefix(prefix: str, data: st.DataObject) -> None:
    if is_reserved_prefix(prefix):
        return
    known = [*RESERVED_ENV_NAMES, *RESERVED_ENV_PREFIXES, *RESERVED]
    rest = data.draw(st.sampled_from([name[start:] for name in known for start in range(len(name))]))
    assert not is_reserved_env(prefix + rest)


@pytest.mark.parametrize("prefix", ["HTTP_", "no_", "LD_", "PYTHON_", "KUBERNETES_SERVICE_", "Bash_"])
def test_prefixes_of_reserved_names_are_reserved(prefix: str) -> None:
    assert is_reserved_prefix(prefix)


@pytest.mark.parametrize("prefix", ["", "A", "APP", "_", "__", "1_", "A-_", "A_B"])
def test_a_prefix_ends_with_an_underscore(prefix: str) -> None:
    with pytest.raises(ValidationError):
        EnvFrom(prefix=prefix)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A.B", "A B", "A=B", "A\n", "Ä"])
def test_a_name_is_one_that_every_shell_knows(name: str) -> None:
    with pytest.raises(ValidationError):
        EnvVar(name=name, value="x")


@pytest.mark.parametrize(
    "path",
    [
        "/", "/config", "/config/", "config/a", "/config/a/b", "/config/..", "/config/a/../../etc", "/configs/a",
        "/app", "/tmp", "/tmp/a", "/etc/eventconsumer", "/usr/lib", "/opt/venv", "/opt/spark/conf", "/proc/1",
        labels.SECRETS_DIR, f"{labels.SECRETS_DIR}/event-hub", "/var/run/secrets", "/run/secrets", "/mnt/a\n",
    ],
)  # fmt: skip
def test_folders_are_below_those_that_no_program_uses(path: str) -> None:
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


def test_hosts_of_older_versions_know_no_inputs() -> None:
    given = {
        "handler": "a:B",
        "env": [{"name": "A", "value": "b"}],
        "envFrom": [{"prefix": "A_B_", "secretRef": {"name": "s"}}],
        "volumes": [{"mountPath": "/mnt/a", "configMap": {"name": "c"}}],
        "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 1}]}],
    }
    kept = Processing.model_validate(given).for_hosts().model_dump(by_alias=True)
    assert not {"env", "envFrom", "volumes", "egress"} & kept.keys()
    assert kept["handler"] == "a:B"
