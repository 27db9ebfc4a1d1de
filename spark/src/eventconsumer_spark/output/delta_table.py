"""A Delta table that grows by one transaction for each batch, and its compaction.

Invariant: a batch is in the table once. Its append carries a transaction id (application, number), and Delta ignores
one whose number is not above the last; so a repeated attempt adds nothing. Batches of one application are written in
order, so no new batch is ignored; parallel batches have different applications. Each append names its batch in the
table's history, from which a repeated attempt reads the result of the first one.

Delta has no public API for the sizes of a table's files, nor for one commit without a Spark job; `_small_files` and
`_commits` read the table's log through the version that jars/pom.xml pins. This module never vacuums: removed files
stay for readers of older versions.
"""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delta.exceptions import (
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import StructType

from eventconsumer_api.wire.file_columns import COLUMNS
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.output.folder import ROW_GROUP_BYTES
from eventconsumer_spark.output.layout import SMALL, SmallFiles, worth_compacting
from eventconsumer_storage.errors import StorageError

log = logging.getLogger(__name__)

_OPTIMIZE = "spark.databricks.delta.optimize"
_TRIES = 5
# Conflicts of an append, https://docs.delta.io/concurrency-control/: another writer has created the table or added
# columns, or an attempt that was superseded has just added the batch. They have no common class in Python.
_CONFLICTS = (
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
_RECENT = 30  # Number of versions to read before all versions are read.
_STATISTICS = (*(each.name for each in COLUMNS if each.statistics), "partition_key")


@dataclass(frozen=True)
class Transaction:
    """The transaction of a batch: `number` rises from batch to batch of the same `application`."""

    application: str
    number: int


@dataclass(frozen=True)
class Appended:
    """A batch in a table: number of rows that it added or changed, their version, and the note of its writer."""

    rows: int
    version: int
    note: Mapping[str, Any]


def append(
    frame: DataFrame,
    table: str,
    transaction: Transaction,
    note: Mapping[str, Any],
    partition_by: Sequence[str] = (),
    *,
    bounded: Sequence[str] = (),
) -> Appended:
    """Add the rows of a batch, unless they are in the table.

    Args:
        frame: The rows; evaluated once, again after a conflict with another writer, or never if they are in the table.
        table: URI of the table; created if missing. New columns are added to it.
        transaction: Transaction of this batch.
        note: Kept in the table's history with the append; the note of an earlier attempt is returned.
        partition_by: Partition columns of a new table.
        bounded: Columns of bodies that have statistics in a new table.

    Raises:
        ConfigurationError: The table has other columns or partitions.
        StorageError: The batch is in the table, but no longer in its history.
    """
    own = _own(transaction)
    writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
    writer = writer.option("txnAppId", transaction.application).option("txnVersion", transaction.number)
    writer = writer.option("userMetadata", json.dumps(own | dict(note)))
    writer = writer.option("parquet.block.size", ROW_GROUP_BYTES).options(**_properties(frame.columns, bounded))
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    for tries in range(1, _TRIES + 1):
        try:
            writer.save(table)
            break
        except AnalysisException as error:
            raise _unfit(table, error) from error
        except _CONFLICTS as error:
            if tries == _TRIES:
                raise
            log.info("%s: another writer was faster; trying again: %s", table, _first_line(error))
    return _find(frame.sparkSession, table, own)


@dataclass(frozen=True)
class Match:
    """Merge conditions of a row `s` of a batch and a row `t` of the table: SQL expressions.

    Attributes:
        on: Condition of a match.
        update: Column -> its new value.
        where: Which matching rows are updated; None: all.
    """

    on: str
    update: Mapping[str, str]
    where: str | None = None


def merge(frame: DataFrame, table: str, transaction: Transaction, note: Mapping[str, Any], match: Match) -> Appended:
    """Update and insert the rows of a batch, unless an earlier attempt did.

    Args:
        frame: The rows, at most one for each of the table's.
        table: URI of the table; created if missing.
        transaction: Transaction of this batch.
        note: As in `append`.
        match: Updates of matching rows; other rows are inserted.

    Raises:
        ConfigurationError: The table has other columns.
        StorageError: As in `append`.
    """
    spark, own = frame.sparkSession, _own(transaction)
    settings = {
        "spark.databricks.delta.write.txnAppId": transaction.application,
        "spark.databricks.delta.write.txnVersion": str(transaction.number),
        "spark.databricks.delta.commitInfo.userMetadata": json.dumps(own | dict(note)),
    }
    create(spark, table, frame.schema)
    merging = DeltaTable.forPath(spark, table).alias("t").merge(frame.alias("s"), match.on)
    merging = merging.whenMatchedUpdate(match.where, dict(match.update)).whenNotMatchedInsertAll()
    try:
        with _set(spark, settings):
            merging.execute()
    except AnalysisException as error:
        raise _unfit(table, error) from error
    return _find(spark, table, own)


def create(
    spark: SparkSession,
    table: str,
    schema: StructType,
    partition_by: Sequence[str] = (),
    *,
    bounded: Sequence[str] = (),
) -> None:
    """Create an empty table if it is missing.

    `DeltaTable.createIfNotExists` refuses a folder with other files (DELTA_MISSING_DELTA_TABLE), and this folder
    contains the record of its chain. A write creates a table in it.

    Args:
        spark: The session.
        table: URI of the table.
        schema: Its columns.
        partition_by: Its partition columns.
        bounded: As in `append`.
    """
    writer = spark.createDataFrame([], schema).write.format("delta").mode("ignore")
    writer = writer.options(**_properties(schema.names, bounded))
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.save(table)


def compact(spark: SparkSession, table: str, target: int, partition_column: str = "") -> int:
    """Compact small files if it is worthwhile; the table's rows do not change.

    It may run beside other writers: appends do not conflict with it, and Delta refuses it if another transaction has
    removed one of its files (Delta's documentation, page "Concurrency control").

    Args:
        spark: The session.
        table: URI of the table.
        target: Target size of files, bytes.
        partition_column: Partition column of the table; empty: none.

    Returns:
        Number of compacted partitions; an unpartitioned table counts as one.

    Raises:
        Exception: Any error of Spark or Delta; partitions that were compacted before stay compacted.
    """
    settings = {f"{_OPTIMIZE}.maxFileSize": str(target), f"{_OPTIMIZE}.minFileSize": str(int(target * SMALL))}
    partitions = worth_compacting(_small_files(spark, table, target, partition_column), target)
    for partition in partitions:
        where = f" WHERE {partition_column} = '{partition}'" if partition_column else ""
        with _set(spark, settings):
            result = spark.sql(f"OPTIMIZE delta.`{table}`{where}").first()["metrics"]
        log.info("%s%s: compacted %d files to %d", table, where, result.numFilesRemoved, result.numFilesAdded)
    return len(partitions)


def version_of(spark: SparkSession, table: str) -> int:
    """The newest version of a table."""
    return int(spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1").first()["version"])


def _find(spark: SparkSession, table: str, own: Mapping[str, Any]) -> Appended:
    for version, text, metrics in _commits(spark, table):
        note = _note(text)
        if own.items() <= note.items():
            return Appended(_rows(metrics), version, note)
    raise StorageError(
        f"batch {own['batch']} is in the table {table}, but not in the table's history: set its "
        "property delta.logRetentionDuration above the maximum time between two attempts of a batch"
    )


def _commits(spark: SparkSession, table: str) -> Iterator[tuple[int, str | None, Mapping[str, str]]]:
    """Version, userMetadata and operationMetrics of the table's commits, from the newest.

    The newest one is read from the log, because DESCRIBE HISTORY runs a Spark job; usually it is the batch's.
    """
    log_of_table = _log_of(spark, table)
    version = int(log_of_table.unsafeVolatileSnapshot().version())
    path = spark._jvm.org.apache.spark.sql.delta.util.FileNames.unsafeDeltaFile(log_of_table.logPath(), version)
    text = ""
    # A commit that was removed from the log, or cannot be read: the history decides.
    with contextlib.suppress(Py4JJavaError):
        text = log_of_table.store().read(path, log_of_table.newDeltaHadoopConf()).mkString("\n")
    # Not splitlines: statistics may contain other line separators of Unicode.
    for info in (json.loads(line).get("commitInfo") for line in text.split("\n") if line):
        if info:
            yield version, info.get("userMetadata"), info.get("operationMetrics", {})
    for limit in (f" LIMIT {_RECENT}", ""):
        for entry in spark.sql(f"DESCRIBE HISTORY delta.`{table}`{limit}").collect():
            yield int(entry["version"]), entry["userMetadata"], entry["operationMetrics"]


def _rows(metrics: Mapping[str, str]) -> int:
    # The written rows of a merge include copied rows.
    if "numTargetRowsInserted" in metrics:
        return int(metrics["numTargetRowsInserted"]) + int(metrics["numTargetRowsUpdated"])
    return int(metrics["numOutputRows"])


def _own(transaction: Transaction) -> dict[str, Any]:
    return {"transaction": transaction.application, "batch": transaction.number}


def _properties(columns: Sequence[str], bounded: Sequence[str] = ()) -> dict[str, str]:
    """For a new table only. The log needs no minima and maxima of bodies and properties."""
    counted = [name for name in (*_STATISTICS, *bounded) if name in columns]
    return {"delta.dataSkippingStatsColumns": ",".join(counted)} if counted else {}


def _unfit(table: str, error: AnalysisException) -> ConfigurationError:
    return ConfigurationError(
        f"the table {table} refuses this batch: {_first_line(error)}: restore the spec.spark.output with which the "
        "table was created, or set another spec.spark.output.path"
    )


@contextlib.contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for one statement."""
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def _note(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _log_of(spark: SparkSession, table: str) -> Any:
    return spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table)


def _small_files(spark: SparkSession, table: str, target: int, partition_column: str) -> list[SmallFiles]:
    files = DataFrame(_log_of(spark, table).unsafeVolatileSnapshot().allFiles().toDF(), spark)
    partition = F.col("partitionValues")[partition_column] if partition_column else F.lit("")
    rows = (
        files.where(F.col("size") < int(target * SMALL))
        .groupBy(partition.alias("partition"))
        .agg(F.count(F.lit(1)).alias("files"), F.sum("size").alias("bytes"))
        .collect()
    )
    return [SmallFiles(row["partition"], row["files"], row["bytes"]) for row in rows if row["partition"] is not None]


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
