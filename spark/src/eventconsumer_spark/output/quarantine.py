"""Events whose body does not match: kept beside the output, with file, sequence number and cause."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from eventconsumer_spark.output.folder import remove_folder, write_folder
from eventconsumer_storage.errors import StorageError


@dataclass(frozen=True)
class Kept:
    """Quarantined events: number, folder, and cause of the first; all empty if there are none."""

    rows: int = 0
    path: str = ""
    message: str = ""


def keep(spark: SparkSession, unfit: DataFrame | None, expected: int, folder: str) -> Kept:
    """Write the events that do not match, replacing files of earlier attempts.

    Args:
        spark: The session.
        unfit: From `bodies.split`.
        expected: Required number: the batch's events without those in the output.
        folder: Their folder, of this batch only.

    Raises:
        StorageError: The number differs.
    """
    if expected == 0:
        remove_folder(spark, folder)
        return Kept()
    rows = 0 if unfit is None else write_folder(unfit.coalesce(1), folder)
    if rows != expected:
        raise StorageError(
            f"{expected} events are not in the output, but {rows} have a body that does not match: nothing was "
            "committed; the output and the files that were read are inconsistent"
        )
    first = (
        spark.read.parquet(folder)
        .orderBy("partition_id", "sequence_number")
        .select("cause", "partition_id", "sequence_number")
    )
    cause, partition, number = first.first()
    return Kept(rows, folder, f"{cause}: sequence number {number} of partition {partition}")


def describe(kept: Kept) -> str:
    """One line for the log."""
    return f"{kept.rows} events quarantined in {kept.path}, the first: {kept.message}"
