"""The default program: writes the events of each batch according to `spec.spark.output`.

The output contains each event once, with its body decoded; events whose body does not match are in a quarantine beside
it. Bodies are decoded once; the files are read a second time only if bodies do not match.
"""

import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import ConfigDict, ValidationError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from eventconsumer_api.spec.spark import Body, BodyColumns, OutputFormat
from eventconsumer_api.wire.batch import BatchJob
from eventconsumer_api.wire.document import WireDocument, misfit
from eventconsumer_api.wire.identity import BatchFolder
from eventconsumer_spark import EVENT_SCHEMA, Batch, WriteResult, run_batch
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.output.avro import Schemas, find_schemas, split_avro
from eventconsumer_spark.output.bodies import Split, columns_of_files, split
from eventconsumer_spark.output.delta_table import Transaction, append, compact
from eventconsumer_spark.output.folder import write_folder
from eventconsumer_spark.output.layout import output_files, worth_looking
from eventconsumer_spark.output.quarantine import describe, keep
from eventconsumer_spark.registry.client import open_registry

log = logging.getLogger("eventconsumer_spark")

DATE = "date"
"""The column that `spark.output.partitionByDate` adds."""


class Decoding(WireDocument):
    """How an attempt decoded the bodies, in its note in the table's history: a later attempt decodes them alike."""

    model_config = ConfigDict(extra="forbid")

    body: Body
    schemas: dict[str, Any] | None = None


def write_batch(batch: Batch) -> WriteResult:
    """Write one batch to the output and the quarantine."""
    output = batch.job.output
    schemas = _schemas(batch, output.body)
    decoded = _split(batch, output.body, schemas)
    frame = with_date(decoded.fitting) if output.partition_by_date else decoded.fitting
    dates = [DATE] if output.partition_by_date else []
    size, total = (sum(getattr(file, name) for file in batch.manifest.files) for name in ("size", "count"))
    frame = frame.coalesce(output_files(size, output.target_file_bytes, batch.spark.sparkContext.defaultParallelism))
    version = maintenance = None
    if output.format is OutputFormat.PARQUET:
        check_free(frame, BatchFolder.VISIBLE)  # readers make a column of the folders' names
    # Trials write files, which can be removed.
    if output.format is OutputFormat.PARQUET or batch.trial:
        rows = write_folder(frame, batch.output, dates)
    else:
        own = Decoding(body=output.body, schemas=dict(schemas.choice) if schemas else None)
        note = {"consumer": batch.job.resource.path, **json.loads(own.to_json())}
        once = Transaction(batch.transaction, batch.manifest.number)
        done = append(frame, batch.table, once, note, dates, bounded=bounded(batch.job))
        rows, version = done.rows, done.version
        # As decoded by the attempt that wrote the table, if the resource or the registry was changed in between.
        first = _decoding(done.note)
        if first != own:
            schemas = _schemas(batch, first.body, first.schemas)
        decoded = _split(batch, first.body, schemas)
    kept = keep(batch.spark, decoded.unfit, total - rows, batch.quarantine_path)
    if kept.rows:
        log.warning("batch %d: %s", batch.manifest.number, describe(kept))
    if version is not None and worth_looking(batch.manifest.number):
        maintenance = partial(compact, batch.spark, batch.table, output.target_file_bytes, DATE if dates else "")
    return WriteResult(rows, version, kept.rows, kept.path, kept.message, maintenance)


def with_date(events: DataFrame) -> DataFrame:
    """The events with the date of their enqueued time (always UTC); see `with_column`."""
    days = F.floor(F.unix_micros("enqueued_time") / F.lit(86_400_000_000)).cast("int")
    return with_column(events, DATE, F.date_from_unix_date(days))


def with_column(events: DataFrame, name: str, value: Column) -> DataFrame:
    """The events with a column that only the output has.

    Raises:
        ConfigurationError: As `check_free`.
    """
    check_free(events, name)
    return events.withColumn(name, value)


def check_free(events: DataFrame, name: str) -> None:
    """Refuse a column of bodies with a name that the output adds.

    Raises:
        ConfigurationError: There is one.
    """
    if name in map(str.lower, events.columns):
        raise ConfigurationError(f"spec.sink.body has a column {name}, which the output adds: use another name there")


def bounded(job: BatchJob) -> list[str]:
    """The columns of bodies that have statistics."""
    return [each.name for each in job.columns if each.statistics]


def _schemas(batch: Batch, body: Body, choice: Mapping[str, Any] | None = None) -> Schemas | None:
    """The schemas of the batch; None: the bodies are not Avro."""
    if body.registry is None:
        return None
    return find_schemas(batch.events, body, open_registry(body.registry, batch.job.registry), choice)


def _split(batch: Batch, body: Body, schemas: Schemas | None) -> Split:
    if body.columns is BodyColumns.FROM_SINK:
        return columns_of_files(batch.events)
    # An edit of spec.sink.body alone does not change the output.
    events = batch.events.select(*EVENT_SCHEMA.names)
    return split_avro(events, schemas) if schemas else split(events, body)


def _decoding(note: Mapping[str, Any]) -> Decoding:
    try:
        return Decoding.model_validate({name: note[name] for name in Decoding.model_fields if name in note})
    except ValidationError as error:
        raise ConfigurationError(f"the table's note of an earlier attempt at the batch: {misfit(error)}") from None


if __name__ == "__main__":
    run_batch(write_batch)
