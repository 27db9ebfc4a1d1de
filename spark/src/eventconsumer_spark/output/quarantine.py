"""Events whose body does not fit: kept beside the output, with what is needed to find and repair them."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from eventconsumer_spark.output.folder import remove_folder, write_folder
from eventconsumer_storage.errors import StorageError


@dataclass(frozen=True)
class Kept:
    """What was left out: number of events, their folder, the first of them in words; all empty where nothing was."""

    rows: int = 0
    path: str = ""
    message: str = ""


def keep(spark: SparkSession, unfit: DataFrame | None, expected: int, folder: str) -> Kept:
    """Write the events that do not fit, replacing what an earlier attempt wrote.

    Args:
        spark: The session.
        unfit: As `bodies.split` gives them.
        expected: How many there must be: the batch's events without those in the output.
        folder: Theirs, of this batch only.

    Raises:
        StorageError: There are more or fewer.
    """
    if expected == 0:
        remove_folder(spark, folder)
        return Kept()
    rows = 0 if unfit is None else write_folder(unfit.coalesce(1), folder)
    if rows != expected:
        raise StorageError(
            f"{expected} events are not in the output, and {rows} have a body that does not fit: nothing was "
            "committed; the program and the files it read do not belong together"
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
