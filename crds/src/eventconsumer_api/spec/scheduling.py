"""Fields of pods that a user may set: where they run, and their labels and annotations.

A typed list without pass-through: other fields cannot be set. Terms about other pods apply only to the resource's own
namespace.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules, told, total

LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]
LabelName = Annotated[str, Field(min_length=1, max_length=317, pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*$")]

# Labels and annotations by which Kubernetes, workload identity and this operator select and control pods.
RESERVED_DOMAINS = ("kubernetes.io", "k8s.io", "eventconsumer.io", "azure.workload.identity")
RESERVED_KEYS = frozenset({"controller-revision-hash", "controller-uid", "job-name", "pod-template-hash"})


def is_reserved(key: str) -> bool:
    """Whether only Kubernetes and the operator may put this label or annotation on a pod."""
    domain, slash, _ = key.lower().partition("/")
    if not slash:
        return key in RESERVED_KEYS
    return any(domain == reserved or domain.endswith(f".{reserved}") for reserved in RESERVED_DOMAINS)


class TolerationOperator(StrEnum):
    """How a toleration matches a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """Effects of taints."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(Model):
    """A taint that pods tolerate."""

    model_config = rules(
        (
            "!has(self.value) || self.operator != 'Exists'",
            "tolerations: value is for operator Equal; with Exists leave it out",
        ),
        ("has(self.key) || self.operator == 'Exists'", "tolerations: without key, operator must be Exists"),
        (
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerations: tolerationSeconds is for effect NoExecute",
        ),
    )

    key: LabelName | None = Field(default=None, description="Taint key; absent with operator Exists: all taints.")
    operator: TolerationOperator = Field(
        default=TolerationOperator.EQUAL, description="Equal: key and value. Exists: the key alone."
    )
    value: LabelValue | None = Field(default=None, description="Taint value, with operator Equal.")
    effect: TaintEffect | None = Field(
        default=None, description="NoSchedule, PreferNoSchedule or NoExecute; absent: all effects."
    )
    toleration_seconds: int | None = Field(
        default=None,
        ge=0,
        description="Time a pod stays after the taint was added, seconds. Absent: forever. For effect NoExecute.",
    )


class SelectorOperator(StrEnum):
    """How a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(Model):
    """One condition on labels."""

    model_config = rules(
        (
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0) || "
            "self.operator in ['Gt', 'Lt']",
            "matchExpressions: values are required with operators In and NotIn, and refused with Exists and "
            "DoesNotExist",
        ),
        (
            "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1 && "
            "self.values[0].matches('^-?[0-9]+$'))",
            "matchExpressions: operators Gt and Lt need one value, a whole number",
        ),
    )

    key: LabelName = Field(description="Name of the label.")
    operator: SelectorOperator = Field(description="In, NotIn, Exists, DoesNotExist; for nodes also Gt and Lt.")
    values: list[LabelValue] = Field(default=[], max_length=64, description="For In and NotIn; one for Gt and Lt.")


class NodeTerm(Model):
    """All of these must hold for a node."""

    match_expressions: list[Requirement] = Field(
        min_length=1, max_length=32, description="Conditions on the node's labels; all must hold."
    )


class NodeTerms(Model):
    """One of these must hold."""

    node_selector_terms: list[NodeTerm] = Field(
        min_length=1, max_length=16, description="A node must satisfy one of them."
    )


class PreferredNode(Model):
    """A preference for nodes."""

    weight: int = Field(ge=1, le=100, description="Weight of the preference.")
    preference: NodeTerm = Field(description="The preferred nodes.")


class NodeAffinity(Model):
    """Which nodes."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = Field(
        default=None, description="Nodes that pods must run on; running pods are not moved."
    )
    preferred_during_scheduling_ignored_during_execution: list[PreferredNode] = Field(
        default=[], max_length=16, description="Nodes that pods should run on."
    )


class LabelSelector(Model):
    """Pods of the same namespace."""

    model_config = rules(
        (
            "!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['Gt', 'Lt']))",
            "labelSelector: operators Gt and Lt are for nodes only",
        ),
    )

    match_labels: dict[LabelName, LabelValue] = Field(
        default={}, max_length=16, description="Labels and the values they must have."
    )
    match_expressions: list[Requirement] = Field(
        default=[], max_length=16, description="Other conditions on the labels; all must hold."
    )


class PodTerm(Model):
    """A term about other pods."""

    label_selector: LabelSelector = Field(description="Selector of pods in the resource's namespace.")
    topology_key: LabelName = Field(
        description="Node label that defines the topology domain, such as kubernetes.io/hostname."
    )


class PreferredPod(Model):
    """A preference about other pods."""

    weight: int = Field(ge=1, le=100, description="Weight of the preference.")
    pod_affinity_term: PodTerm = Field(description="The pods to be near to or away from.")


class PodAffinity(Model):
    """Which other pods."""

    required_during_scheduling_ignored_during_execution: list[PodTerm] = Field(
        default=[], max_length=16, description="Requirements at scheduling time; running pods are not moved."
    )
    preferred_during_scheduling_ignored_during_execution: list[PreferredPod] = Field(
        default=[], max_length=16, description="Preferences at scheduling time."
    )


class Affinity(Model):
    """Where pods must or should run."""

    node_affinity: NodeAffinity | None = Field(default=None, description="Required and preferred nodes.")
    pod_affinity: PodAffinity | None = Field(default=None, description="Required and preferred pods to be near to.")
    pod_anti_affinity: PodAffinity | None = Field(
        default=None, description="Required and preferred pods to be away from."
    )


class PodFields(Model):
    """Where pods run, and their labels and annotations. Subclasses attach `pod_rules`."""

    node_selector: dict[LabelName, LabelValue] = Field(
        default={}, max_length=32, description="Labels of the nodes to run on. The administrator must allow them."
    )
    tolerations: list[Toleration] = Field(
        default=[], max_length=32, description="Taints of nodes to tolerate. The administrator must allow their keys."
    )
    affinity: Affinity | None = Field(
        default=None,
        description="Node and pod affinity. In addition, hosts prefer to spread over nodes and zones.",
    )
    priority_class_name: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        json_schema_extra=told("use lower-case letters, digits, dots and hyphens, as in names of Kubernetes"),
        description="Priority class. The operator's administrator must allow it.",
    )
    labels: dict[LabelName, LabelValue] = Field(
        default={}, max_length=32, description="Labels of the pods. The administrator must allow their prefix."
    )
    annotations: dict[LabelName, Annotated[str, Field(max_length=4096)]] = Field(
        default={}, max_length=32, description="Annotations of the pods. The administrator must allow their prefix."
    )


def pod_rules(path: str) -> tuple[tuple[str, str], ...]:
    """Rules of `PodFields`.

    Args:
        path: Path of the subclass's field in the spec, for the messages.
    """
    domains = (*RESERVED_DOMAINS, "app.kubernetes.io")
    is_free = " && ".join(f"!key.startsWith('{domain}/')" for domain in domains)
    reserved = (
        (
            f"!has(self.{field}) || self.{field}.all(key, {is_free})",
            f"{path}.{field}: keys of {', '.join(RESERVED_DOMAINS)} are reserved",
        )
        for field in ("labels", "annotations")
    )
    return (*reserved, total("annotations", f"{path}.annotations", 16_384, pairs=True))
