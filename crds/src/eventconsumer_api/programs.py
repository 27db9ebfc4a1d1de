"""What user code may get beside events: configuration, secrets and destinations, for handlers and Spark programs.

A typed list without pass-through, in the words of Kubernetes' pods and network policies. ConfigMaps and Secrets are
those of the resource's own namespace. Names of variables that change how our programs, Python, Java, the C library or
Azure's libraries work are reserved: a user who may set variables must not choose which code runs, and where credentials
go. For all keys of a ConfigMap or Secret, whose names are not known in advance, a prefix ensures this. Volumes are
folders below three folders that no program of ours uses.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field

from eventconsumer_api.model import Model, rules
from eventconsumer_api.scalars import ObjectName
from eventconsumer_api.scheduling import LabelName, LabelValue

RESERVED_ENV_PREFIXES = (
    # Of this project, and of Kubernetes for each Service.
    "EVENTCONSUMER_", "POD_", "KUBERNETES_",
    # Sign-in: azure-identity's EnvironmentCredential, WorkloadIdentityCredential and ManagedIdentityCredential.
    "AZURE_", "IDENTITY_", "MSI_", "IMDS_",
    # Certificates and modules of OpenSSL.
    "SSL_", "OPENSSL_",
    # ld.so(8), mallopt(3), tunables of glibc, iconv(3), and tini, which starts each container.
    "LD_", "MALLOC_", "GLIBC_", "GCONV_", "TINI_",
    # python3(1), pyarrow, and the start scripts of Java, Hadoop and Spark.
    "PYTHON", "ARROW_", "JAVA_", "_JAVA", "JDK_", "HADOOP_", "HDFS_", "YARN_", "SPARK_", "PYSPARK_",
)  # fmt: skip
RESERVED_ENV_NAMES = (
    # bash(1), which starts Spark, environ(7), and of urllib, requests and aiohttp: proxies, certificates, keys of
    # connections, passwords.
    "PATH", "HOME", "HOSTNAME", "SHELL", "SHELLOPTS", "BASHOPTS", "PS4", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT",
    "ENV", "BASH_ENV", "IFS", "TMPDIR", "TEMP", "TMP", "CLASSPATH",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSLKEYLOGFILE",
    "NETRC",
    # resolver(5), hostname(7) and locale(7): they change which host a name means, or load files.
    "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "LOCPATH", "NLSPATH", "TZDIR",
    # With these Spark takes its pod for a container of YARN (org.apache.spark.util.Utils).
    "CONTAINER_ID", "LOCAL_DIRS",
)  # fmt: skip
MOUNT_FOLDERS = ("/config/", "/secrets/", "/mnt/")
"""Where volumes of user code are, and nothing else."""
ENV_CHARACTERS = 16_384
"""Maximum number of characters of the values of `env` in all."""

_CONFIG_MAP, _SECRET = "ConfigMap", "Secret"
_PREFIX_LIST = f"[{', '.join(repr(prefix) for prefix in RESERVED_ENV_PREFIXES)}]"
_NAME_LIST = f"[{', '.join(repr(name) for name in RESERVED_ENV_NAMES)}]"
_RESERVED = "EVENTCONSUMER_*, KUBERNETES_*, AZURE_*, PYTHON*, LD_*, SSL_*, JAVA_*, SPARK_*, PATH, HOME and HTTPS_PROXY"

Key = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
FileName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_][-._A-Za-z0-9]*$")]
EnvName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvPrefix = Annotated[str, Field(min_length=3, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_]*_$")]
MountPath = Annotated[
    str, Field(max_length=64, pattern=rf"^({'|'.join(MOUNT_FOLDERS)})[a-z0-9]([-a-z0-9]{{0,38}}[a-z0-9])?$")
]


def is_reserved_env(name: str) -> bool:
    """Whether a variable is for the programs of the pod; proxies are read in lower case too."""
    return name.upper() in RESERVED_ENV_NAMES or name.upper().startswith(RESERVED_ENV_PREFIXES)


def is_reserved_prefix(prefix: str) -> bool:
    """Whether some name with this prefix is reserved."""
    upper = prefix.upper()
    return upper.startswith(RESERVED_ENV_PREFIXES) or any(
        name.startswith(upper) for name in (*RESERVED_ENV_PREFIXES, *RESERVED_ENV_NAMES)
    )


def _unique(key: str) -> dict[str, Any]:
    """The list has at most one item with a value of this field; the API server enforces it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class KeyRef(Model):
    """One key of a ConfigMap or Secret in the resource's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap or Secret, in the resource's namespace.")
    key: Key = Field(description="Key in it.")
    optional: bool = Field(default=False, description="Start without it if the object or the key does not exist.")


class EnvSource(Model):
    """Source of a variable: exactly one of the two."""

    model_config = rules(
        (
            "has(self.configMapKeyRef) != has(self.secretKeyRef)",
            "valueFrom: set exactly one of configMapKeyRef and secretKeyRef",
        )
    )

    config_map_key_ref: KeyRef | None = Field(default=None, description="A key of a ConfigMap.")
    secret_key_ref: KeyRef | None = Field(
        default=None, description="A key of a Secret. A volume shows a changed Secret without a restart."
    )


class EnvVar(Model):
    """A variable of the environment."""

    model_config = rules(
        ("has(self.value) != has(self.valueFrom)", "env: set exactly one of value and valueFrom"),
        (
            f"!(self.name.upperAscii() in {_NAME_LIST}) && "
            f"!{_PREFIX_LIST}.exists(each, self.name.upperAscii().startsWith(each))",
            f"env: names such as {_RESERVED} are reserved for the programs of the pod: use another name",
        ),
    )

    name: EnvName = Field(description="Name of the variable.")
    value: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="Its value. $(NAME) is the value of a variable before it. Never put secrets here."
    )
    value_from: EnvSource | None = Field(default=None, description="Its source instead of a value.")


class ObjectRef(Model):
    """A ConfigMap or Secret in the resource's namespace."""

    name: ObjectName = Field(description="Its name, in the resource's namespace.")
    optional: bool = Field(default=False, description="Start without it if it does not exist.")


class EnvFrom(Model):
    """All keys of a ConfigMap or Secret, as variables."""

    model_config = rules(
        (
            "has(self.configMapRef) != has(self.secretRef)",
            "envFrom: set exactly one of configMapRef and secretRef",
        ),
        (
            f"!{_PREFIX_LIST}.exists(each, self.prefix.upperAscii().startsWith(each)) && "
            f"!({_PREFIX_LIST} + {_NAME_LIST}).exists(each, each.startsWith(self.prefix.upperAscii()))",
            f"envFrom: with this prefix a key could give a reserved name, such as {_RESERVED}: use another prefix, "
            "such as APP_",
        ),
    )

    prefix: EnvPrefix = Field(description="Text before each key, with an underscore at its end, such as APP_.")
    config_map_ref: ObjectRef | None = Field(default=None, description="The ConfigMap.")
    secret_ref: ObjectRef | None = Field(default=None, description="The Secret.")


class KeyToPath(Model):
    """One key as one file."""

    key: Key = Field(description="Key in the ConfigMap or Secret.")
    path: FileName = Field(description="Name of the file.")


class ConfigMapSource(Model):
    """A ConfigMap as files."""

    name: ObjectName = Field(description="Name of the ConfigMap, in the resource's namespace.")
    items: list[KeyToPath] = Field(default=[], max_length=32, description="Keys to mount. Empty: all, by their names.")
    optional: bool = Field(default=False, description="Start without it if it does not exist.")


class SecretSource(Model):
    """A Secret as files."""

    secret_name: ObjectName = Field(description="Name of the Secret, in the resource's namespace.")
    items: list[KeyToPath] = Field(default=[], max_length=32, description="Keys to mount. Empty: all, by their names.")
    optional: bool = Field(default=False, description="Start without it if it does not exist.")


class ProgramVolume(Model):
    """A folder with the keys of a ConfigMap or Secret as files, read-only."""

    model_config = rules(
        ("has(self.configMap) != has(self.secret)", "volumes: set exactly one of configMap and secret"),
    )

    mount_path: MountPath = Field(description="The folder: /config/<name>, /secrets/<name> or /mnt/<name>.")
    config_map: ConfigMapSource | None = Field(default=None, description="The ConfigMap.")
    secret: SecretSource | None = Field(default=None, description="The Secret.")

    @property
    def volume_name(self) -> str:
        """Name of the pod's volume: `config-shop` for /config/shop, so that no other volume has it."""
        return self.mount_path[1:].replace("/", "-")


EnvVars = Annotated[list[EnvVar], Field(max_length=64, json_schema_extra=_unique("name"))]
EnvFroms = Annotated[list[EnvFrom], Field(max_length=16)]
ProgramVolumes = Annotated[list[ProgramVolume], Field(max_length=16, json_schema_extra=_unique("mountPath"))]


def env_total(path: str) -> tuple[str, str]:
    """A rule on the values of `env` together, for the model that has the field; `path` is the model's in the spec."""
    return (
        f"!has(self.env) || self.env.map(each, has(each.value) ? size(each.value) : 0).sum() <= {ENV_CHARACTERS}",
        f"{path}.env: at most {ENV_CHARACTERS} characters in all values; put longer content into a ConfigMap",
    )


class Inputs(Protocol):
    """A part of the spec with inputs of user code: spec.processing or spec.spark.application."""

    @property
    def env(self) -> list[EnvVar]:
        """Variables."""

    @property
    def env_from(self) -> list[EnvFrom]:
        """Sources of variables."""

    @property
    def volumes(self) -> list[ProgramVolume]:
        """Folders."""


@dataclass(frozen=True)
class Reference:
    """A ConfigMap or Secret that user code gets.

    Attributes:
        field: The field that names it: env, envFrom or volumes.
        kind: ConfigMap or Secret.
        name: Its name.
        keys: Keys that it must have.
        optional: Whether the pod starts without it.
    """

    field: str
    kind: str
    name: str
    keys: tuple[str, ...]
    optional: bool


def references(inputs: Inputs) -> Iterator[Reference]:
    """The ConfigMaps and Secrets, in the order of the fields."""
    for source in (variable.value_from for variable in inputs.env if variable.value_from):
        for kind, key in ((_CONFIG_MAP, source.config_map_key_ref), (_SECRET, source.secret_key_ref)):
            if key:
                yield Reference("env", kind, key.name, (key.key,), key.optional)
    for each in inputs.env_from:
        for kind, whole in ((_CONFIG_MAP, each.config_map_ref), (_SECRET, each.secret_ref)):
            if whole:
                yield Reference("envFrom", kind, whole.name, (), whole.optional)
    for volume in inputs.volumes:
        if files := volume.config_map:
            yield Reference("volumes", _CONFIG_MAP, files.name, tuple(i.key for i in files.items), files.optional)
        if secret := volume.secret:
            keys = tuple(item.key for item in secret.items)
            yield Reference("volumes", _SECRET, secret.secret_name, keys, secret.optional)


# --- egress ----------------------------------------------------------------------------------------------------------


def _cidr(text: str) -> str:
    if "/" not in text:
        raise ValueError(f"{text} is one address: write {text}/32, or /128 for IPv6")
    ip_network(text)  # its ValueError names the mistake
    return text


Cidr = Annotated[str, Field(max_length=43, json_schema_extra={"format": "cidr"}), AfterValidator(_cidr)]


class PortProtocol(StrEnum):
    """Protocols of ports."""

    TCP = "TCP"
    UDP = "UDP"


class EgressPort(Model):
    """A port of the destination."""

    port: int = Field(ge=1, le=65_535, description="Number of the port; of pods, the container's, not the Service's.")
    protocol: PortProtocol = Field(default=PortProtocol.TCP, description="TCP or UDP.")


class IpBlock(Model):
    """A range of addresses."""

    cidr: Cidr = Field(description="The range, such as 10.1.2.0/24. The administrator must allow it.")
    except_: list[Cidr] = Field(default=[], alias="except", max_length=16, description="Ranges in it to leave out.")

    @property
    def network(self) -> IPv4Network | IPv6Network:
        """The range."""
        return ip_network(self.cidr)


class PodSelector(Model):
    """Pods by their labels."""

    match_labels: dict[LabelName, LabelValue] = Field(
        default={}, max_length=16, description="Labels and the values they must have. Empty: all pods."
    )


class Peer(Model):
    """A destination: addresses, or pods."""

    model_config = rules(
        ("has(self.ipBlock) != has(self.podSelector)", "egress: set exactly one of ipBlock and podSelector"),
        (
            "!has(self.namespaces) || size(self.namespaces) == 0 || has(self.podSelector)",
            "egress: namespaces is for podSelector",
        ),
    )

    ip_block: IpBlock | None = Field(default=None, description="Addresses outside the cluster, or of nodes.")
    pod_selector: PodSelector | None = Field(default=None, description="Pods.")
    namespaces: list[ObjectName] = Field(
        default=[],
        max_length=16,
        description="Namespaces of the pods. Empty: that of the resource. The administrator must allow others.",
    )


class EgressRule(Model):
    """Connections that pods with user code may open."""

    to: list[Peer] = Field(min_length=1, max_length=16, description="Destinations; one of them must fit.")
    ports: list[EgressPort] = Field(min_length=1, max_length=16, description="Ports of the destinations.")
