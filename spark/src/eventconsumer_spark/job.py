"""The default program: copies the events of each batch to Parquet, in the batch's folder of the output."""

from eventconsumer_spark import Batch, run_batch


def copy(batch: Batch) -> int:
    """Write the events as they are; return their number."""
    return batch.write_parquet(batch.events)


if __name__ == "__main__":
    run_batch(copy)
