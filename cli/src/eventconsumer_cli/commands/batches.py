"""`batches`: state of the Spark batches of a consumer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.resource.remedies import command, is_good
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_api.v1alpha1.status import LaterBatchStatus, SparkStatus
from eventconsumer_api.wire.host_report import BatchReport
from eventconsumer_cli.commands.partitions import look_at
from eventconsumer_cli.errors import Failed, Forbidden
from eventconsumer_cli.kube.kinds import POD, name_of
from eventconsumer_cli.options import ConsumerName
from eventconsumer_cli.output import BAD, GOOD, TITLE, WARN, table
from eventconsumer_cli.session import Session
from eventconsumer_cli.text import PROGRAM, age, count, duration, plural, size, time_of
from eventconsumer_cli.view import Look

_EXECUTOR = "executor"
_STYLES = {"Succeeded": GOOD, "Failed": BAD}


@dataclass(frozen=True)
class Attempt:
    """An attempt whose driver is still in the cluster.

    Attributes:
        batch: Number of the batch.
        attempt: Number of the attempt.
        driver: Name of the driver's pod.
        phase: Phase of that pod.
        executors: Number of executor pods.
        started: Creation time of the driver.
        ended: Time when its container ended; None: it is running or pending.
    """

    batch: int
    attempt: int
    driver: str
    phase: str
    executors: int
    started: datetime | None
    ended: datetime | None

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "batch": self.batch,
            "attempt": self.attempt,
            "driver": self.driver,
            "phase": self.phase,
            "executors": self.executors,
            "started": self.started.isoformat() if self.started else None,
            "ended": self.ended.isoformat() if self.ended else None,
        }


def batches(session: Session, name: ConsumerName = None) -> None:
    """Show the open batches, the last committed batch, pending files and the attempts in the cluster."""
    look = look_at(session, name)
    where = f"{look.name} -n {look.namespace}"
    spark = look.consumer["spec"].get("spark")
    if not spark or spark.get("enabled") is False:
        raise Failed(
            f"{look.name} has no spec.spark: it has no batches",
            f"set spec.spark for that; `{PROGRAM} files {where}` shows the files",
        )
    found: list[Attempt] = []
    try:
        selector = {labels.LABEL_CONSUMER: look.name, labels.LABEL_COMPONENT: labels.COMPONENT_SPARK}
        found = attempts(session.cluster.list(POD, look.namespace, selector))
    except Forbidden as error:
        session.out.note(f"attempts are not shown: {error}", WARN)
    session.out.show(document(look, found), lambda: view(look, found), [f"pod/{each.driver}" for each in found])


def attempts(pods: Sequence[Manifest]) -> list[Attempt]:
    """Attempts that have pods, newest first."""
    executors: dict[tuple[int, int], int] = {}
    drivers: list[tuple[tuple[int, int], Manifest]] = []
    for pod in pods:
        told = pod["metadata"].get("labels", {})
        batch = told.get(labels.LABEL_BATCH, "")
        if not batch.isdecimal():
            continue
        key = int(batch), int(told.get(labels.LABEL_ATTEMPT, "1"))
        if told.get("spark-role") == _EXECUTOR:
            executors[key] = executors.get(key, 0) + 1
        else:
            drivers.append((key, pod))
    made = [_attempt(key, pod, executors.get(key, 0)) for key, pod in drivers]
    return sorted(made, key=lambda each: (each.batch, each.attempt, each.driver), reverse=True)


def _attempt(key: tuple[int, int], pod: Manifest, executors: int) -> Attempt:
    status = pod.get("status", {})
    ended = [
        each["state"]["terminated"].get("finishedAt")
        for each in status.get("containerStatuses", [])
        if "terminated" in each.get("state", {})
    ]
    return Attempt(
        batch=key[0],
        attempt=key[1],
        driver=name_of(pod),
        phase=str(status.get("phase", "Unknown")),
        executors=executors,
        started=time_of(pod["metadata"].get("creationTimestamp")),
        ended=time_of(ended[0]) if ended else None,
    )


def document(look: Look, found: Sequence[Attempt]) -> dict[str, Any]:
    """For programs."""
    fleet, spark = look.hosts.fleet, look.status.spark
    said = spark.model_dump(mode="json", by_alias=True, exclude_none=True) if spark else None
    return {
        "openBatches": [each.model_dump(mode="json", by_alias=True) for each in fleet.open_batches] if fleet else None,
        "status": said,
        "attempts": [each.document() for each in found],
    }


def view(look: Look, found: Sequence[Attempt]) -> Iterator[RenderableType]:
    """Properties, then attempts, then the next command."""
    yield _facts(look)
    if found:
        yield Text("")
        headers = ("batch", "attempt", "state", "executors", "age", "took", "driver")
        yield table(headers, [_row(each, look.now) for each in found], right=headers[:2] + headers[3:6])
        newest = found[0]
        yield Text(f"\nlog of the newest: kubectl logs -n {look.namespace} {newest.driver}")
    condition = look.status.condition(ConditionType.SPARK_HEALTHY)
    if condition and not is_good(condition):
        yield Text.assemble(("\n" + condition.reason, BAD), f": {condition.message}")
        step = command(condition.reason, look.name, look.namespace)
        if step and "batches" not in step:
            yield Text(step)


def _row(one: Attempt, now: datetime) -> list[str | Text]:
    took = duration(((one.ended or now) - one.started).total_seconds()) if one.started else "-"
    state = Text(one.phase, style=_STYLES.get(one.phase, WARN))
    return [str(one.batch), str(one.attempt), state, str(one.executors), age(one.started, now), took, one.driver]


def _facts(look: Look) -> Table:
    fleet, spark = look.hosts.fleet, look.status.spark
    pending = (fleet.pending_files, fleet.pending_bytes) if fleet else None
    if pending is None and spark:
        pending = spark.pending_files, spark.pending_bytes
    grid = Table.grid(padding=(0, 2))
    for name, value in (
        ("open batch", _open(look)),
        ("committed", _committed(look)),
        ("waiting", "not known" if pending is None else f"{plural(pending[0], 'file')}, {size(pending[1])}"),
        ("processed", f"{count(fleet.processed_files if fleet else spark.processed_files if spark else None)} files"),
        ("left out", _left_out(look)),
        ("failures", _failures(look)),
    ):
        if value:
            grid.add_row(Text(name, style=TITLE), Text(value))
    return grid


def _open(look: Look) -> str:
    fleet, spark = look.hosts.fleet, look.status.spark
    if fleet is None:
        return f"unknown; last started application: {spark.last_application or 'none'}" if spark else "not known"
    return "\n".join(_open_batch(look, batch) for batch in fleet.open_batches) or "none"


def _open_batch(look: Look, batch: BatchReport) -> str:
    spark = look.status.spark
    text = f"{batch.number}: {plural(batch.files, 'file')}, {count(batch.events)} events, {size(batch.bytes)}"
    frozen = f", frozen {age(batch.created_at, look.now)} ago" if batch.created_at else ""
    later = {each.batch: each.attempt for each in spark.later_batches} if spark else {}
    number = spark.attempt if spark and spark.last_batch == batch.number else later.get(batch.number)
    attempt = f", attempt {number}" if number else ""
    return f"{text} (for {batch.reason}){frozen}{attempt}"


def _committed(look: Look) -> str:
    spark = look.status.spark
    last = spark.last_commit if spark else None
    if last is None:
        return "none yet"
    rows = f"{count(last.rows_read)} events read, {count(last.rows_written)} rows written"
    version = f", table version {last.output_version}" if last.output_version is not None else ""
    return f"{last.number}, {age(last.time, look.now)} ago: {rows} in {duration(last.seconds)}{version}"


def _left_out(look: Look) -> str:
    quarantine = look.status.spark.quarantine if look.status.spark else None
    if quarantine is None:
        return ""
    return f"{quarantine.files} files and {quarantine.rows} events of other files: {quarantine.message}"


def _failures(look: Look) -> str:
    spark = look.status.spark
    if spark is None:
        return ""
    found = [_failure(spark, look.now, f"batch {spark.last_batch}")] if spark.failures else []
    found += [_failure(each, look.now, f"batch {each.batch}") for each in spark.later_batches if each.failures]
    return "\n".join(found)


def _failure(batch: SparkStatus | LaterBatchStatus, now: datetime, name: str) -> str:
    wait = (batch.next_attempt_time - now).total_seconds() if batch.next_attempt_time else 0
    again = f"; next attempt in {duration(wait)}" if wait > 0 else ""
    return f"{name}: {batch.failures} in a row; the last: {batch.last_failure}{again}"
