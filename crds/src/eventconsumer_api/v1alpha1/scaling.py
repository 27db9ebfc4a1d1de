"""Number of hosts."""

from enum import StrEnum

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules


class ScalingMode(StrEnum):
    """Modes of scaling."""

    PARTITION_COUNT = "PartitionCount"
    LAG = "Lag"
    FIXED = "Fixed"


class LagScaling(Model):
    """Scaling by lag."""

    target_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="Maximum age of the oldest event that is in no file, beyond sink.roll.maxSeconds, seconds. An "
        "older event makes its partition count as lagging.",
    )
    cooldown_seconds: int = Field(
        default=300, ge=0, le=86_400, description="Time without a lagging partition before hosts are removed, seconds."
    )
    idle_seconds: int = Field(
        default=900,
        ge=30,
        le=604_800,
        description="With minReplicas: 0, time without new events and lag before the last host is removed, seconds. A "
        "probe pod then watches for new events and starts pending Spark batches.",
    )


class Scaling(Model):
    """Number of hosts: never above the number of partitions, unless the mode is Fixed."""

    model_config = rules(
        (
            "(has(self.mode) && self.mode == 'Fixed') == has(self.replicas)",
            "scaling.replicas is required with mode: Fixed and refused with any other mode",
        ),
        (
            "self.minReplicas <= self.maxReplicas",
            "scaling.minReplicas must not be above scaling.maxReplicas",
        ),
        (
            "self.minReplicas > 0 || self.mode == 'Lag'",
            "scaling.minReplicas: 0 needs mode: Lag, which starts hosts again when events arrive",
        ),
    )

    mode: ScalingMode = Field(
        default=ScalingMode.PARTITION_COUNT,
        description="PartitionCount: partitions / partitionsPerHost. "
        "Lag: as many hosts as the lag requires. Fixed: replicas.",
    )
    partitions_per_host: int = Field(default=1, ge=1, le=1024, description="Partitions for each host (PartitionCount).")
    min_replicas: int = Field(default=1, ge=0, le=1024, description="Minimum number of hosts (PartitionCount, Lag).")
    max_replicas: int = Field(default=32, ge=1, le=1024, description="Maximum of running hosts (PartitionCount, Lag).")
    lag: LagScaling = Field(default=LagScaling(), description="Settings of mode Lag.")
    replicas: int | None = Field(
        default=None, ge=0, le=1024, description="Number of hosts that run (Fixed); `kubectl scale` sets it."
    )
