"""The capacity model: hosts, storage requests and money of a consumer, from its spec and a rate of events. Pure.

docs/concepts/capacity.md explains each constant. `tests/bench/capacity.py` compares the model with measurements, and
tests/unit/api/resource/test_capacity.py the requests at idle with the host's own figure. Limits of the services:

- Event Hubs, throughput units: https://learn.microsoft.com/azure/event-hubs/event-hubs-scalability
- Event Hubs, tiers: https://learn.microsoft.com/azure/event-hubs/event-hubs-quotas
- Storage: https://learn.microsoft.com/azure/storage/common/scalability-targets-standard-account
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from eventconsumer_api.kube.quantities import amount
from eventconsumer_api.spec.spark import Spark
from eventconsumer_api.v1alpha1 import EventConsumerSpec, Scaling, ScalingMode

KB, MB, MIB = 1000, 1_000_000, 1 << 20
HOURS_PER_MONTH = 730
MONTH_SECONDS = HOURS_PER_MONTH * 3600
DAY_SECONDS = 86_400

# A host: CPU seconds, memory in MiB.
CPU_PER_EVENT = 1.9e-6
CPU_PER_BYTE = 4.6e-9
CPU_PER_FILE = 0.03
CPU_PER_PARTITION = 0.0006  # per second, of an idle link and a lease
CPU_IDLE = 0.008  # per second, of a host without partitions
HOST_CORES = 0.7  # share of its one core that a plan gives to a host; the rest is for catching up
PROGRAM_MIB, FILES_MIB = 150, 50

# Requests.
WRITES_PER_FILE = 2.0  # the file and the checkpoint
READS_PER_FILE = 2.0  # the leading host finds the file, and that there is no next one
MEASURE_SECONDS = 5.0  # between two looks of the leading host
LEASE_RENEWAL = 0.6  # of the duration of a lease
LEAD_SECONDS, LEAD_STAND_BY = 60.0, 30.0
SCAN_SECONDS, SCAN_JITTER, SCAN_REST = 4.0, 0.85, 35.0
MOVED_SECONDS, MOVED_READS = 300.0, 3.0
FEW_HOSTS = 8  # hosts, except the leading one, make as many checks at idle as these, all together
TABLE_COMMIT = 1.0  # writes, and as many reads, of a commit to the table
TABLE_QUIET_SECONDS = 60.0  # after a file, in which the leading host still looks for the next one

# Spark: CPU seconds of a batch and of a row.
DRIVER_CPU, RESIDENT_CPU, ROW_CPU = 11.8, 1.6, 6e-6

# Limits of the services.
UNIT_INGRESS_BYTES, UNIT_INGRESS_EVENTS = MB, 1000
UNIT_EGRESS_BYTES, UNIT_EGRESS_EVENTS = 2 * MB, 4096
STANDARD_UNITS = 40
STANDARD_PARTITIONS = 32
STORAGE_REQUESTS = 20_000  # per second and account; 40,000 in some regions
STORAGE_INGRESS_BYTES = 25e9 / 8  # per second and account; 60 Gbit/s in some regions
PARQUET_RATIO = 0.5  # bytes of a file / bytes of its events, for bodies that compress 2:1


@dataclass(frozen=True)
class Load:
    """A steady load of one consumer.

    Attributes:
        rate: Events per second, of all partitions together.
        event_bytes: Mean size of an event, bytes.
        partitions: Partitions of the Event Hub.
        hosts: Number of hosts.
        roll_seconds: `spec.sink.roll.maxSeconds`.
        roll_bytes: `spec.sink.roll.maxBytes`.
        roll_events: `spec.sink.roll.maxEvents`.
        buffer_bytes: `spec.processing.bufferBytes`.
        lease_seconds: `spec.checkpointStore.leaseDurationSeconds`.
        table_seconds: `spec.sink.table.maxSeconds`; None: no table.
        operator: Whether hosts receive operator messages, as they do in a cluster.
    """

    rate: float
    event_bytes: float
    partitions: int
    hosts: int
    roll_seconds: float = 60
    roll_bytes: float = 134_217_728
    roll_events: float = 1_000_000
    buffer_bytes: float = 268_435_456
    lease_seconds: float = 60
    table_seconds: float | None = None
    operator: bool = True

    @property
    def bytes(self) -> float:
        """Bytes of events per second."""
        return self.rate * self.event_bytes

    @property
    def files(self) -> float:
        """Files per second: each partition completes a file at the first limit of `roll`, or when buffers are full."""
        each = self.rate / self.partitions
        if not each:
            return 0.0
        per_host = self.partitions / self.hosts
        seconds = min(
            self.roll_seconds + 1 / each,  # the age counts from the first event of a file
            self.roll_events / each,
            self.roll_bytes / (each * self.event_bytes),
            self.buffer_bytes * 7 / 8 / (per_host * each * self.event_bytes),
        )
        return self.partitions / seconds


@dataclass(frozen=True)
class RequestRates:
    """Storage requests per second.

    Attributes:
        writes: Writes, leases and listings, which Azure bills at the price of writes.
        reads: Reads.
    """

    writes: float
    reads: float

    @property
    def total(self) -> float:
        """Both."""
        return self.writes + self.reads


def requests_per_second(load: Load) -> RequestRates:
    """Storage requests of all hosts, per second."""
    rest = SCAN_REST if load.operator else 1.0
    scan = min(load.lease_seconds / 6, SCAN_SECONDS) * SCAN_JITTER * rest
    lead = min(load.lease_seconds, LEAD_SECONDS)
    stand_by = lead / 4 * (LEAD_STAND_BY if load.operator else 1.0)
    others = (load.hosts - 1) / (max(1.0, load.hosts / FEW_HOSTS) if load.operator else 1.0)
    writes = (
        load.partitions / (LEASE_RENEWAL * load.lease_seconds)
        + (1 + others) / scan
        + 1 / (LEASE_RENEWAL * lead)
        + others / stand_by
        + load.files * WRITES_PER_FILE
    )
    looks = min(load.files, load.partitions / MEASURE_SECONDS)
    reads = (1 + others) * MOVED_READS / MOVED_SECONDS + looks * READS_PER_FILE
    if load.table_seconds is not None:
        commits = min(load.files, 1 / load.table_seconds) * TABLE_COMMIT  # fewer where files end at the same time
        writes += commits
        # A look for the next file of each partition that has events in no file, or had a file a short time ago.
        busy = min(1.0, load.files / load.partitions * (load.roll_seconds + TABLE_QUIET_SECONDS))
        reads += commits + busy * load.partitions / load.table_seconds
    return RequestRates(writes, reads)


def host_cpu_seconds(load: Load) -> float:
    """CPU time of all hosts per second, so cores."""
    return (
        load.rate * CPU_PER_EVENT
        + load.bytes * CPU_PER_BYTE
        + load.files * CPU_PER_FILE
        + load.partitions * CPU_PER_PARTITION
        + load.hosts * CPU_IDLE
    )


def host_mib(load: Load) -> float:
    """Memory of one host in a steady state, MiB: the program, its open files, and events of open files in buffers."""
    seconds = load.partitions / load.files if load.files else 0.0
    buffered = load.bytes / load.hosts * seconds
    return PROGRAM_MIB + FILES_MIB + min(buffered, load.buffer_bytes) / MIB


@dataclass(frozen=True)
class Prices:
    """Prices in one currency. The defaults are examples of the size of list prices, not an offer.

    Attributes:
        core_hour: One core of a node for one hour.
        gib_hour: One GiB of memory of a node for one hour.
        writes: 10,000 writes, leases or listings of blobs.
        reads: 10,000 reads of blobs.
        gb_month: 1 GB of blobs for one month.
        unit_hour: One throughput unit for one hour.
        million_events: One million events sent to the hub.
    """

    core_hour: float = 0.04
    gib_hour: float = 0.005
    writes: float = 0.055
    reads: float = 0.0044
    gb_month: float = 0.018
    unit_hour: float = 0.03
    million_events: float = 0.028


class Limit(NamedTuple):
    """A limit of a service or of a host, and its use by the plan.

    Attributes:
        name: The limit.
        used: Use by this consumer.
        limit: The limit, in the same unit.
        sign: How it shows above the limit, and the remedy.
    """

    name: str
    used: float
    limit: float
    sign: str

    @property
    def share(self) -> float:
        """Use / limit."""
        return self.used / self.limit


@dataclass(frozen=True)
class CapacityPlan:
    """Resources and cost of one consumer at a load.

    Attributes:
        load: The load, with the number of hosts.
        needed_hosts: Fewest hosts for the load.
        cores: CPU time of all hosts per second.
        mib: Memory of one host, MiB.
        request_cores: CPU that the cluster reserves for one host.
        request_mib: Memory that the cluster reserves for one host.
        requests: Storage requests.
        file_bytes: Mean size of a file, bytes; 0: no events.
        batches_per_day: Spark batches; 0: no Spark.
        spark_cores: CPU time of Spark per second.
        units: Throughput units of the hub.
        limits: The limits, the most used one first.
    """

    load: Load
    needed_hosts: int
    cores: float
    mib: float
    request_cores: float
    request_mib: float
    requests: RequestRates
    file_bytes: float
    batches_per_day: float
    spark_cores: float
    units: int
    limits: tuple[Limit, ...]

    def costs(self, prices: Prices, kept_days: float) -> dict[str, float]:
        """Cost of a month, by item.

        Args:
            prices: The prices.
            kept_days: Days for which files are kept.
        """
        stored = self.load.bytes * PARQUET_RATIO * DAY_SECONDS * kept_days
        return {
            "hosts, reserved CPU": self.load.hosts
            * max(self.request_cores, self.cores / self.load.hosts)
            * HOURS_PER_MONTH
            * prices.core_hour,
            "hosts, reserved memory": self.load.hosts * self.request_mib / 1024 * HOURS_PER_MONTH * prices.gib_hour,
            "Spark, CPU": self.spark_cores * HOURS_PER_MONTH * prices.core_hour,
            "storage, writes and listings": self.requests.writes * MONTH_SECONDS / 10_000 * prices.writes,
            "storage, reads": self.requests.reads * MONTH_SECONDS / 10_000 * prices.reads,
            "storage, files": stored / 1e9 * prices.gb_month,
            "hub, throughput units": self.units * HOURS_PER_MONTH * prices.unit_hour,
            "hub, events": self.load.rate * MONTH_SECONDS / 1e6 * prices.million_events,
        }


def plan(
    spec: EventConsumerSpec, rate: float, event_bytes: float, partitions: int, hosts: int | None = None
) -> CapacityPlan:
    """Plan a consumer.

    Args:
        spec: Its spec.
        rate: Events per second.
        event_bytes: Mean size of an event, bytes.
        partitions: Partitions of the Event Hub.
        hosts: Number of hosts; None: those of `spec.scaling`, with mode Lag as many as the load needs.
    """
    one = _load(spec, rate, event_bytes, partitions, 1)
    needed = _needed(one)
    load = replace(one, hosts=hosts or _hosts(spec.scaling, partitions, needed))
    requested = spec.pods.resources.requests
    limits = spec.pods.resources.limits
    cores, requests = host_cpu_seconds(load), requests_per_second(load)
    batches = _batches_per_day(spec.spark, load)
    return CapacityPlan(
        load=load,
        needed_hosts=needed,
        cores=cores,
        mib=host_mib(load),
        request_cores=float(amount(requested.get("cpu") or limits.get("cpu") or "50m")),
        request_mib=float(amount(requested.get("memory") or limits.get("memory") or "192Mi")) / MIB,
        requests=requests,
        file_bytes=load.bytes / load.files * PARQUET_RATIO if load.files else 0.0,
        batches_per_day=batches,
        spark_cores=_spark_cores(spec.spark, load, batches),
        units=_units(load),
        limits=_limits(load, cores, requests),
    )


def _load(spec: EventConsumerSpec, rate: float, event_bytes: float, partitions: int, hosts: int) -> Load:
    roll, table = spec.sink.roll, spec.sink.table
    return Load(
        rate=rate,
        event_bytes=event_bytes,
        partitions=partitions,
        hosts=hosts,
        roll_seconds=roll.max_seconds,
        roll_bytes=roll.max_bytes,
        roll_events=roll.max_events,
        buffer_bytes=spec.processing.buffer_bytes,
        lease_seconds=spec.checkpoint_store.lease_duration_seconds,
        table_seconds=table.max_seconds if table else None,
    )


def _needed(load: Load) -> int:
    """Fewest hosts with at most `HOST_CORES` each; with few hosts, full buffers make more files."""
    loads = (replace(load, hosts=hosts) for hosts in range(1, load.partitions))
    return next((each.hosts for each in loads if host_cpu_seconds(each) / each.hosts <= HOST_CORES), load.partitions)


def _hosts(scaling: Scaling, partitions: int, needed: int) -> int:
    match scaling.mode:
        case ScalingMode.FIXED:
            wanted = scaling.replicas or 1
        case ScalingMode.LAG:
            wanted = min(max(needed, scaling.min_replicas), scaling.max_replicas)
        case _:
            asked = -(-partitions // scaling.partitions_per_host)
            wanted = min(max(asked, scaling.min_replicas), scaling.max_replicas)
    return max(1, min(wanted, partitions))


def _units(load: Load) -> int:
    """Throughput units for the events as they are sent, and as this consumer reads them."""
    return max(
        1,
        math.ceil(load.rate / UNIT_INGRESS_EVENTS),
        math.ceil(load.bytes / UNIT_INGRESS_BYTES),
        math.ceil(load.rate / UNIT_EGRESS_EVENTS),
        math.ceil(load.bytes / UNIT_EGRESS_BYTES),
    )


def _batches_per_day(spark: Spark | None, load: Load) -> float:
    if spark is None or not spark.enabled or not load.files:
        return 0.0
    trigger = spark.trigger
    if trigger.window_seconds:
        return DAY_SECONDS / trigger.window_seconds
    file_bytes = load.bytes / load.files * PARQUET_RATIO
    seconds = min(trigger.files / load.files, trigger.bytes / (load.files * file_bytes), trigger.age_seconds)
    return DAY_SECONDS / max(seconds, 1 / load.files)


def _spark_cores(spark: Spark | None, load: Load, batches_per_day: float) -> float:
    if spark is None or not batches_per_day:
        return 0.0
    fixed = RESIDENT_CPU if spark.idle_timeout_seconds else DRIVER_CPU
    return batches_per_day / DAY_SECONDS * fixed + load.rate * ROW_CPU


def _limits(load: Load, cores: float, requests: RequestRates) -> tuple[Limit, ...]:
    found = (
        Limit(
            "cores of one host",
            cores / load.hosts,
            1.0,
            "the lag grows although CPU is free on the node: add hosts, up to one for each partition",
        ),
        Limit(
            "throughput units of a Standard namespace",
            _units(load),
            STANDARD_UNITS,
            "publishers receive ServerBusy and the lag grows: use the Premium or Dedicated tier",
        ),
        Limit(
            "partitions of a Standard Event Hub",
            load.partitions,
            STANDARD_PARTITIONS,
            "the hub cannot be created: use the Premium or Dedicated tier",
        ),
        Limit(
            "requests per second of a storage account",
            requests.total,
            STORAGE_REQUESTS,
            "commits are retried and the lag grows: raise sink.roll, or use another account for each consumer",
        ),
        Limit(
            "bytes per second into a storage account",
            load.bytes * PARQUET_RATIO,
            STORAGE_INGRESS_BYTES,
            "commits are retried and the lag grows: ask for a higher limit, or use several consumers and accounts",
        ),
    )
    return tuple(sorted(found, key=lambda limit: -limit.share))
