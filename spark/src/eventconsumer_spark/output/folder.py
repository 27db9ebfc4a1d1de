"""Parquet files in a folder that belongs to one batch: each attempt replaces it as a whole.

Invariant: when `write_folder` returns, the folder contains the files of this write and no others. Overwriting alone is
not sufficient: tasks of a superseded attempt may still finish, and write a file beside those of the next attempt. So
each write has a unique mark in its files' names; other files are removed, and the remaining rows are counted.
"""

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from eventconsumer_storage.errors import StorageError

log = logging.getLogger(__name__)

ROW_GROUP_BYTES = 32 * 1024**2
"""Row group size of a writing task, bytes; Spark's default of 128 MiB per task is too large for a small driver."""
_SUCCESS = "_SUCCESS"


def write_folder(frame: DataFrame, folder: str, partition_by: Sequence[str] = ()) -> int:
    """Write `frame` as Parquet, replacing the content of `folder`.

    Args:
        frame: The rows; evaluated once.
        folder: URI of a folder that no other program uses.
        partition_by: Columns that become subfolders.

    Returns:
        Number of rows.

    Raises:
        StorageError: The files have another number of rows than were written: another program removed some.
    """
    spark = frame.sparkSession
    mark = f"part-{uuid.uuid4().hex[:12]}"
    observed = Observation()
    writer = frame.observe(observed, F.count(F.lit(1)).alias("rows")).write.mode("overwrite")
    writer = writer.option("mapreduce.output.basename", mark).option("parquet.block.size", ROW_GROUP_BYTES)
    writer.partitionBy(*partition_by).parquet(folder)
    rows = int(observed.get["rows"])
    for path in list(list_files(spark, folder)):
        name = path.getName()
        if name != _SUCCESS and not name.startswith(mark):
            log.warning("removed %s: a superseded attempt wrote it", path)
            _files(spark, folder).delete(path, False)
    # With the schema: a folder without rows may have no file from which Spark could infer one.
    found = spark.read.schema(frame.schema).parquet(folder).count()
    if found != rows:
        raise StorageError(
            f"{folder} has {found} rows, this attempt wrote {rows}: another program writes there: give each "
            "EventConsumer its own spark.output.path"
        )
    return rows


def remove_folder(spark: SparkSession, folder: str) -> None:
    """Delete a folder and its content, if it exists."""
    _files(spark, folder).delete(_path(spark, folder), True)


def list_files(spark: SparkSession, folder: str) -> Iterator[Any]:
    """Hadoop paths of all files below a folder; none if the folder does not exist."""
    files, root = _files(spark, folder), _path(spark, folder)
    if not files.exists(root):
        return
    found = files.listFiles(root, True)
    while found.hasNext():
        yield found.next().getPath()


# Python has no API for Hadoop's file systems, which have the session's credential.
def _path(spark: SparkSession, uri: str) -> Any:
    return spark.sparkContext._jvm.org.apache.hadoop.fs.Path(uri)


def _files(spark: SparkSession, uri: str) -> Any:
    return _path(spark, uri).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
