"""Settings of host pods: a typed list without pass-through."""

from typing import Literal

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules
from eventconsumer_api.spec.scalars import Quantity
from eventconsumer_api.spec.scheduling import PodFields, pod_rules

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


class Pods(PodFields):
    """Settings of the host pods."""

    model_config = rules(*pod_rules("pods"))

    resources: Resources = Field(default=Resources(), description="Requests and limits of each host.")
    termination_grace_period_seconds: int = Field(
        default=60,
        ge=5,
        le=3600,
        description="Time for a host to write files, checkpoint and release its leases before it is killed, seconds.",
    )
