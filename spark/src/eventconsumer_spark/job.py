"""The default program: writes the events of each batch according to `spec.spark.output`.

The output contains each event once, with its body decoded; events whose body does not match are in a quarantine beside
it. Bodies are decoded once; the files are read a second time only if bodies do not match.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from eventconsumer_api.spec.spark import Body, OutputFormat
from eventconsumer_spark import Batch, WriteResult, run_batch
from eventconsumer_spark.output.avro import Schemas, find_schemas, split_avro
from eventconsumer_spark.output.bodies import Split, split
from eventconsumer_spark.output.delta_table import Transaction, append, compact
from eventconsumer_spark.output.folder import write_folder
from eventconsumer_spark.output.layout import output_files, worth_looking
from eventconsumer_spark.output.quarantine import describe, keep
from eventconsumer_spark.registry.client import open_registry

log = logging.getLogger("eventconsumer.spark")

DATE = "date"
"""The column that `spark.output.partitionByDate` adds."""


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
    # Trials write files, which can be removed.
    if output.format is OutputFormat.PARQUET or batch.trial:
        rows = write_folder(frame, batch.output, dates)
    else:
        note = {"consumer": batch.job.resource.path, "body": _as_note(output.body)}
        note |= {"schemas": schemas.choice} if schemas else {}
        done = append(frame, batch.table, Transaction(batch.transaction, batch.manifest.number), note, dates)
        rows, version = done.rows, done.version
        # As decoded by the attempt that wrote the table, if the resource or the registry was changed in between.
        body = Body.model_validate(done.note["body"])
        if body != output.body or (schemas and done.note.get("schemas") != schemas.choice):
            schemas = _schemas(batch, body, done.note.get("schemas"))
        decoded = _split(batch, body, schemas)
    kept = keep(batch.spark, decoded.unfit, total - rows, batch.quarantine_path)
    if kept.rows:
        log.warning("batch %d: %s", batch.manifest.number, describe(kept))
    if version is not None and worth_looking(batch.manifest.number):
        maintenance = partial(compact, batch.spark, batch.table, output.target_file_bytes, DATE if dates else "")
    return WriteResult(rows, version, kept.rows, kept.path, kept.message, maintenance)


def with_date(events: DataFrame) -> DataFrame:
    """The events with the date of their enqueued time (always UTC)."""
    days = F.floor(F.unix_micros("enqueued_time") / F.lit(86_400_000_000)).cast("int")
    return events.withColumn(DATE, F.date_from_unix_date(days))


def _schemas(batch: Batch, body: Body, choice: Mapping[str, Any] | None = None) -> Schemas | None:
    """The schemas of the batch; None: the bodies are not Avro."""
    if body.registry is None:
        return None
    return find_schemas(batch.events, body, open_registry(body.registry, batch.job.registry), choice)


def _split(batch: Batch, body: Body, schemas: Schemas | None) -> Split:
    return split_avro(batch.events, schemas) if schemas else split(batch.events, body)


def _as_note(body: Body) -> dict[str, Any]:
    return body.model_dump(mode="json", by_alias=True)


if __name__ == "__main__":
    run_batch(write_batch)
