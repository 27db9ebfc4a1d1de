"""The drained files as a stream: for users who prefer Spark's own checkpoint.

`spec.spark.application.mainFile: local:///app/eventconsumer_spark/streaming.py` runs it: an `availableNow` query over
all drained files of the consumer into the Delta table `spark.output.path`, with its checkpoint in
`<path>_checkpoint`. It is still started for each batch, and commits the batch.

Invariant: a batch is committed only when the table has each of its files with exactly as many rows as the manifest
says. The checkpoint and Delta's sink guarantee exactly once; the manifest verifies it. So a file that is committed
after the manifest may be processed early: then its own batch finds it in the table, and it is not processed again. A
stream over all files has limits, which this program enforces: it cannot exclude a file or process one again (no search
for unprocessable files, no reprocessing), and it must not read files that were never committed (no layout Capture,
whose folders may contain such files).

With `spec.spark.output.body.columns: FromSink` the table has the columns that hosts made of bodies, beside the body. A
stream has no quarantine: an event with an error has a row, too, and the column `_error`.
"""

import logging
from functools import partial
from urllib.parse import urlsplit

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from eventconsumer_api.spec.spark import BodyColumns, BodyType, OutputFormat
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.batch import BatchManifest
from eventconsumer_spark import EVENT_SCHEMA, Batch, WriteResult, run_batch
from eventconsumer_spark.errors import ConfigurationError, CountMismatchError
from eventconsumer_spark.job import DATE, bounded, with_column, with_date
from eventconsumer_spark.output.delta_table import compact, create, version_of
from eventconsumer_spark.output.layout import worth_looking

log = logging.getLogger("eventconsumer_spark")

FILE = "file"
"""The column that this program adds: the blob name of the event's file."""


def drain(batch: Batch) -> WriteResult:
    """Process new files, and compare the table with the batch."""
    check(batch)
    date = batch.job.output.partition_by_date
    new = events_of(batch)
    create(batch.spark, batch.table, new.schema, [DATE] if date else [], bounded=bounded(batch.job))
    writer = new.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    writer = writer.option("mergeSchema", "true")  # columns of bodies are added
    query = writer.option("checkpointLocation", f"{batch.table}_checkpoint").start(batch.table)
    query.awaitTermination()
    rows = rows_of(batch.spark.read.format("delta").load(batch.table), batch.manifest)
    version, maintenance = version_of(batch.spark, batch.table), None
    if worth_looking(batch.manifest.number):
        size = batch.job.output.target_file_bytes
        maintenance = partial(compact, batch.spark, batch.table, size, DATE if date else "")
    return WriteResult(rows, version, maintenance=maintenance)


def check(batch: Batch) -> None:
    """Refuse settings that a stream over all files does not support.

    Raises:
        ConfigurationError: Names the field.
    """
    output, remedy = batch.job.output, "or restore the default of spec.spark.application.mainFile"
    if batch.trial:
        raise ConfigurationError("the streaming program cannot exclude files: set spec.spark.unprocessableFiles: Fail")
    if batch.job.reprocess:
        raise ConfigurationError(
            f"the streaming program cannot reprocess batches: remove spec.spark.reprocess {remedy}"
        )
    if batch.manifest.parallel:
        raise ConfigurationError(
            f"the streaming program processes batches in order: set spec.spark.batch.inFlight: 1 {remedy}"
        )
    if batch.manifest.format is not FileFormat.PARQUET:
        raise ConfigurationError(f"the streaming program reads Parquet files: set spec.sink.format: Parquet {remedy}")
    if output.format is not OutputFormat.DELTA or output.body.type is not BodyType.BINARY:
        raise ConfigurationError(
            "the streaming program writes events unchanged into a Delta table: set spec.spark.output.format: Delta "
            f"and body.type: Binary {remedy}"
        )


def events_of(batch: Batch) -> DataFrame:
    """A stream of all files in the consumer's slots, of all segments of the chain."""
    url = urlsplit(batch.table)
    root = f"{url.scheme}://{batch.job.sink.container}@{url.netloc.rpartition('@')[2]}/{batch.job.sink.prefix}"
    schema = batch.schema if batch.job.output.body.columns is BodyColumns.FROM_SINK else EVENT_SCHEMA
    # No glob in the path: with two folders, Spark's file stream would process each file twice.
    files = batch.spark.readStream.schema(schema).option("recursiveFileLookup", "true")
    files = files.option("pathGlobFilter", "from=*.parquet").parquet(root)
    events = with_column(files, FILE, F.regexp_replace("_metadata.file_path", r"^\w+://[^/]+/", ""))
    return with_date(events) if batch.job.output.partition_by_date else events


def rows_of(table: DataFrame, manifest: BatchManifest) -> int:
    """Number of rows of the table from the manifest's files.

    Raises:
        CountMismatchError: A file has more or fewer rows than it has events.
    """
    lowest = min((covered.first for covered in manifest.ranges.values()), default=0)
    highest = max((covered.last for covered in manifest.ranges.values()), default=0)
    # Sequence numbers only limit the rows to read: a recreated hub begins again at 0.
    near = table.where(F.col("sequence_number").between(lowest, highest))
    found = {row[FILE]: row["count"] for row in near.groupBy(FILE).count().collect()}
    wrong = [file for file in manifest.files if found.get(file.path, 0) != file.count]
    if wrong:
        raise CountMismatchError(
            f"the table has {found.get(wrong[0].path, 0)} rows of {wrong[0].path}, which has {wrong[0].count} events "
            f"({len(wrong)} of {len(manifest.files)} files differ): checkpoint and table belong together: restore "
            "both, or set another spec.spark.output.path"
        )
    return sum(file.count for file in manifest.files)


if __name__ == "__main__":
    run_batch(drain)
