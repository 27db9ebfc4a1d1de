"""Spark over drained files: each batch is read as it was frozen, and written and committed once.

A program is a function from a `Batch` to the number of rows it wrote:

    from eventconsumer_spark import Batch, run_batch

    def process(batch: Batch) -> int:
        return batch.write_parquet(batch.events.groupBy("partition_key").count())

    if __name__ == "__main__":
        run_batch(process)

or, with its own session, calls `read_batch` and at the end `commit_batch` (program/helper.py).

Modules, from top to bottom: job and streaming (the programs of the image), program (a driver's process), attempt (one
batch from its claim to its commit), batch (the interface of programs), input, output, storage. Errors: errors.py.
"""

from eventconsumer_spark.batch import Batch
from eventconsumer_spark.errors import SparkJobError
from eventconsumer_spark.input.reading import EVENT_SCHEMA
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.program.helper import ClaimedBatch, commit_batch, read_batch, read_batches
from eventconsumer_spark.program.run import run_batch

__all__ = [
    "EVENT_SCHEMA",
    "Batch",
    "ClaimedBatch",
    "SparkJobError",
    "WriteResult",
    "commit_batch",
    "read_batch",
    "read_batches",
    "run_batch",
]
