"""Settings of host pods: a typed list without pass-through."""

from typing import Annotated, Literal

from pydantic import Field

from eventconsumer_api.model import Model, rules, total
from eventconsumer_api.scalars import Quantity
from eventconsumer_api.scheduling import RESERVED_DOMAINS, Affinity, LabelName, LabelValue, Toleration

ResourceName = Literal["cpu", "memory", "ephemeral-storage"]


class Resources(Model):
    """Requests and limits of each host container: CPU and memory, and no devices, which give access to the node."""

    model_config = rules(
        (
            "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || "
            "quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
            "pods.resources: a request must not be above its limit",
        ),
    )

    requests: dict[ResourceName, Quantity] = Field(
        default={},
        max_length=3,
        description="Reserved resources, such as {cpu: 100m, memory: 256Mi}; absent: 50m CPU, 192Mi memory, "
        "64Mi ephemeral storage, or the limit.",
    )
    limits: dict[ResourceName, Quantity] = Field(
        default={},
        max_length=3,
        description="Maximum resources of a host, such as {memory: 1Gi}; absent: 768Mi memory, 1Gi ephemeral storage "
        "(its log and /tmp), and CPU without a limit.",
    )


class Pods(Model):
    """Settings of the host pods."""

    model_config = rules(
        *(
            (
                f"!has(self.{field}) || self.{field}.all(key, "
                + " && ".join(f"!key.startsWith('{domain}/')" for domain in (*RESERVED_DOMAINS, "app.kubernetes.io"))
                + ")",
                f"pods.{field}: keys of {', '.join(RESERVED_DOMAINS)} are reserved",
            )
            for field in ("labels", "annotations")
        ),
        total("annotations", "pods.annotations", 16_384, pairs=True),
    )

    resources: Resources = Field(default=Resources(), description="Requests and limits of each host.")
    node_selector: dict[LabelName, LabelValue] = Field(
        default={}, max_length=32, description="Labels of the nodes to run on."
    )
    tolerations: list[Toleration] = Field(default=[], max_length=32, description="Taints of nodes to tolerate.")
    affinity: Affinity | None = Field(
        default=None, description="Node and pod affinity. Hosts spread over nodes and zones by default."
    )
    priority_class_name: str | None = Field(
        default=None,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        description="Priority class. The operator's administrator must allow it.",
    )
    labels: dict[LabelName, LabelValue] = Field(
        default={}, max_length=32, description="Labels of the pods. The administrator must allow their prefix."
    )
    annotations: dict[LabelName, Annotated[str, Field(max_length=4096)]] = Field(
        default={}, max_length=32, description="Annotations of the pods. The administrator must allow their prefix."
    )
    termination_grace_period_seconds: int = Field(
        default=60,
        ge=5,
        le=3600,
        description="Time for a host to write files, checkpoint and release its leases before it is killed, seconds.",
    )
