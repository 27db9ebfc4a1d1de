"""The probe: one small pod that looks for events while no host runs (`scaling.minReplicas: 0`). Pure.

It also makes Spark batches of pending files, and observes their commits. It differs from a host only in its command and
size: same configuration, Secrets and restrictions. The operator has no credentials to look for events itself.
"""

from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.quantities import amount
from eventconsumer_api.v1alpha1 import EventConsumerSpec, ScalingMode
from eventconsumer_api.v1alpha1.status import ScalingStatus
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_operator.kube.manifest import STATEFUL_SET, is_being_deleted
from eventconsumer_operator.plan.hosts import host_probes
from eventconsumer_operator.resource.names import belongs, child, host_name, probe_name, selector
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import ordinals
from eventconsumer_operator.resource.pods import host_resources, host_template

COMMAND = "probe"
# Measured: 80 MB, mostly code. The limit allows hubs with a thousand partitions.
REQUESTS = {"cpu": "10m", "memory": "96Mi", "ephemeral-storage": "16Mi"}
STORAGE_LIMIT = "256Mi"  # its log
LIMIT_MIB = 256
BATCH_FILE_KIB = 4  # measured: 3.7 per file of the frozen batch, and 0.9 per pending file
GRACE_SECONDS = 5  # it owns no partitions


def is_asleep(scaling: ScalingStatus) -> bool:
    """Whether hosts are scaled to zero until new events arrive."""
    return scaling.mode is ScalingMode.LAG and scaling.replicas == 0


def is_probing(scaling: ScalingStatus) -> bool:
    """Whether the probe runs: while hosts are asleep, or one runs in place of a probe that does not report."""
    return is_asleep(scaling) or (scaling.mode is ScalingMode.LAG and scaling.unknown_since is not None)


def probe_set(observed: Observed, spec: EventConsumerSpec, config: HostConfig, image: str) -> Manifest:
    """The StatefulSet of the probe."""
    consumer = observed.consumer
    name, hosts = probe_name(consumer.key), host_name(consumer.key)
    template = host_template(
        consumer.key,
        spec,
        config,
        image,
        config_map=hosts,
        component=labels.COMPONENT_PROBE,
        arguments=(COMMAND,),
        probes=host_probes(),
        resources=_resources(spec, config),
    )
    pod: dict[str, Any] = template["spec"] | {"terminationGracePeriodSeconds": GRACE_SECONDS}
    return child(consumer, STATEFUL_SET, name, labels.COMPONENT_PROBE) | {
        "spec": {
            "replicas": ordinals(1, observed.probes, observed.now),
            "serviceName": hosts,
            "selector": {"matchLabels": selector(consumer.key, labels.COMPONENT_PROBE)},
            "template": template | {"spec": pod},
        }
    }


def _resources(spec: EventConsumerSpec, config: HostConfig) -> dict[str, dict[str, str]]:
    """Its own size, and a limit of CPU where hosts have one: a quota of limits.cpu refuses pods without."""
    limits = {"memory": f"{_limit_mib(config)}Mi", "ephemeral-storage": STORAGE_LIMIT}
    cpu = host_resources(spec.pods)["limits"].get("cpu")
    if cpu is None:
        return {"requests": REQUESTS, "limits": limits}
    request = REQUESTS["cpu"] if amount(cpu) > amount(REQUESTS["cpu"]) else cpu
    return {"requests": REQUESTS | {"cpu": request}, "limits": {"cpu": cpu, **limits}}


def _limit_mib(config: HostConfig) -> int:
    files = config.batches.limits.max_files if config.batches else 0
    return LIMIT_MIB + -(-files * BATCH_FILE_KIB // 1024)


def unwanted_probe(observed: Observed, scaling: ScalingStatus) -> tuple[Manifest, ...]:
    """The probe's StatefulSet, if it exists while hosts run or are suspended."""
    live = observed.children.get((STATEFUL_SET, probe_name(observed.consumer.key)))
    if live is None or is_probing(scaling):
        return ()
    # An object of this name with another owner is not deleted.
    if not belongs(observed.consumer, live) or is_being_deleted(live):
        return ()
    return (live,)
