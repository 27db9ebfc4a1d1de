"""Spark over drained files: each batch read as it was frozen, written, and committed once.

A program is a function from a `Batch` to the number of rows it wrote:

    from eventconsumer_spark import Batch, run_batch

    def process(batch: Batch) -> int:
        return batch.write_parquet(batch.events.groupBy("partition_key").count())

    if __name__ == "__main__":
        run_batch(process)

or, with a session of its own, takes the batch by `read_batch` and ends with `commit_batch` (helper.py).

Modules, in the order of a driver's life: run and helper (environment, ending: log, exit code, last words), process (a
job's batches), site (where everything is; account and abfs: PURE), attempt (one batch from claim to commit), store
(ETags, leases, conditional writes), manifest (what must be read), claim and keeper (who may commit), session, reading,
batch (what programs see), trials (poison and causes: PURE; which files make a batch fail), commit. Errors: errors.py.
"""

from eventconsumer_spark.batch import Batch
from eventconsumer_spark.errors import SparkJobError
from eventconsumer_spark.helper import ClaimedBatch, commit_batch, read_batch, read_batches
from eventconsumer_spark.reading import EVENT_SCHEMA
from eventconsumer_spark.run import run_batch
from eventconsumer_spark.written import Written

__all__ = [
    "EVENT_SCHEMA",
    "Batch",
    "ClaimedBatch",
    "SparkJobError",
    "Written",
    "commit_batch",
    "read_batch",
    "read_batches",
    "run_batch",
]
