"""How many hosts. Pure."""

from eventconsumer_api.v1alpha1 import EventConsumerSpec, ScalingMode


def wanted_hosts(spec: EventConsumerSpec, partition_count: int | None) -> int:
    """Number of hosts to run.

    Args:
        spec: The validated spec.
        partition_count: Partitions of the hub; None while no host could tell: then one host goes and asks.
    """
    if spec.suspend:
        return 0
    if spec.scaling.mode is ScalingMode.FIXED:
        return spec.scaling.replicas or 0
    if not partition_count:
        return 1
    return -(-partition_count // spec.scaling.partitions_per_host)
