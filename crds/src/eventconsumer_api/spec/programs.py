"""What user code may get beside events: configuration, secrets and destinations, for handlers and Spark programs.

A typed list without pass-through, in the words of Kubernetes' pods and network policies. ConfigMaps and Secrets are
those of the resource's own namespace. All of it is for an image of the user, which the administrator allows: the
programs of the shipped images, and the libraries in them, are given nothing by a user. A variable has a prefix for
applications, because names that other programs read cannot be listed. Volumes are folders below three folders that no
program of ours uses.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_camel

from eventconsumer_api.shared.model import Model, rules, told
from eventconsumer_api.spec.scalars import ObjectName
from eventconsumer_api.spec.scheduling import LabelName, LabelValue

NEEDS_IMAGE: Mapping[str, tuple[str, ...]] = {
    "processing": ("handler", "env", "env_from", "volumes", "egress"),
    "spark.application": ("env", "env_from", "volumes", "egress"),
}
"""Fields that need an image of the user, by the part of the spec with `image`."""
ENV_PREFIX = "APP_"
"""Prefix of variables that is always allowed; the administrator may allow others."""
ENV_PREFIX_PATTERN = r"^[A-Z][A-Z0-9_]*_$"
"""Form of the prefixes of variables that an administrator allows."""
OWN_ENV_WORDS = (
    "AZURE",
    "EVENTCONSUMER",
    "HTTP",
    "HTTPS",
    "KUBERNETES",
    "MALLOC",
    "NO",
    "POD",
    "PYSPARK",
    "SPARK",
)
"""First words of the variables that operator, images, Kubernetes and the webhook of workload identity set in pods. An
administrator cannot allow them."""
MOUNT_FOLDERS = ("/config/", "/secrets/", "/mnt/")
"""Where volumes of user code are, and nothing else."""
ENV_CHARACTERS = 16_384
"""Maximum number of characters of the values of `env` in all."""

_CONFIG_MAP, _SECRET = "ConfigMap", "Secret"

DataKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        pattern=r"^[-._a-zA-Z0-9]+$",
        json_schema_extra=told("use letters, digits, dots, _ and -, as in the keys of Secrets"),
    ),
]
FileName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_][-._A-Za-z0-9]*$")]
EnvName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        json_schema_extra=told("use letters, digits and _, such as APP_LEVEL"),
    ),
]
EnvPrefix = Annotated[
    str,
    Field(
        min_length=2,
        max_length=64,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        json_schema_extra=told("use letters, digits and _, such as APP_"),
    ),
]
MountPath = Annotated[
    str,
    Field(
        max_length=64,
        pattern=rf"^({'|'.join(MOUNT_FOLDERS)})[a-z0-9]([-a-z0-9]{{0,38}}[a-z0-9])?$",
        json_schema_extra=told("use /config/<name>, /secrets/<name> or /mnt/<name>, with one folder"),
    ),
]


def env_prefixes(allowed: Collection[str]) -> tuple[str, ...]:
    """Prefixes of variables; `allowed` are those of the administrator."""
    return tuple(dict.fromkeys((ENV_PREFIX, *allowed)))


def needs_image(path: str) -> str:
    """Why a field without an image of the user is refused, and the remedy; `path` is its part of the spec."""
    return (
        f"is for an image of your own: set {path}.image to an image that the operator's administrator allows, or "
        "remove it"
    )


def image_rules(path: str) -> tuple[tuple[str, str], ...]:
    """A rule for each field that needs an image, for the model that has the fields."""
    fields = [to_camel(field) for field in NEEDS_IMAGE[path]]
    return tuple(
        (
            f"!has(self.{field}) || size(self.{field}) == 0 || has(self.image)",
            f"{path}.{field} {needs_image(path)}",
        )
        for field in fields
    )


def _unique(key: str) -> dict[str, Any]:
    """The list has at most one item with a value of this field; the API server enforces it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class KeyRef(Model):
    """One key of a ConfigMap or Secret in the resource's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap or Secret, in the resource's namespace.")
    key: DataKey = Field(description="Key in it.")
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
            "self.name.matches('^[A-Z][A-Z0-9_]*_[A-Za-z0-9_]+$')",
            f"env: a name begins with {ENV_PREFIX}, or another prefix that the operator's administrator allows: rename "
            f"the variable, such as {ENV_PREFIX}MODE",
        ),
        (
            "!has(self.value) || !self.value.contains('$(')",
            "env: a value with $( would refer to another variable: write the text itself, or put it into a ConfigMap",
        ),
    )

    name: EnvName = Field(
        description=f"Name of the variable: {ENV_PREFIX}, or another prefix that the administrator allows, and more."
    )
    value: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="Its value, exactly; $( is refused. Never put secrets here."
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
            f"self.prefix.matches('{ENV_PREFIX_PATTERN}')",
            f"envFrom: a prefix begins with {ENV_PREFIX}, or another one that the operator's administrator allows, and "
            "ends with an underscore: use such a prefix",
        ),
    )

    prefix: EnvPrefix = Field(
        description=f"Text before each key: {ENV_PREFIX}, or another prefix that the administrator allows, and more."
    )
    config_map_ref: ObjectRef | None = Field(default=None, description="The ConfigMap.")
    secret_ref: ObjectRef | None = Field(default=None, description="The Secret.")


class KeyToPath(Model):
    """One key as one file."""

    key: DataKey = Field(description="Key in the ConfigMap or Secret.")
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
    def image(self) -> str | None:
        """The image of the user."""

    @property
    def env(self) -> list[EnvVar]:
        """Variables."""

    @property
    def env_from(self) -> list[EnvFrom]:
        """Sources of variables."""

    @property
    def volumes(self) -> list[ProgramVolume]:
        """Folders."""

    @property
    def egress(self) -> list["EgressRule"]:
        """Destinations."""


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
