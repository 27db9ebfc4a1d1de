"""Spark over drained files: each batch read as it was frozen, written, and committed once.

A program is a function from a `Batch` to the number of rows it wrote:

    from eventconsumer_spark import Batch, run_batch

    def process(batch: Batch) -> int:
        return batch.write_parquet(batch.events.groupBy("partition_key").count())

    if __name__ == "__main__":
        run_batch(process)

Modules, in the order of a driver's life: run (environment, log, exit code), batch (one batch from start to commit),
account and abfs (PURE: where storage is), store (ETags, put-if-absent), manifest (what must be read), session, reading,
commit. Errors: errors.py.
"""

from eventconsumer_spark.batch import Batch
from eventconsumer_spark.errors import SparkJobError
from eventconsumer_spark.reading import EVENT_SCHEMA
from eventconsumer_spark.run import run_batch

__all__ = ["EVENT_SCHEMA", "Batch", "SparkJobError", "run_batch"]
