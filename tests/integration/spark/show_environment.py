"""A program that prints what Spark would show of itself: the Environment page, its arguments and its variables."""

import json
import os
from pathlib import Path

from eventconsumer_spark import Batch, run_batch


def show(batch: Batch) -> int:
    context = batch.spark.sparkContext
    # A file added to a running application makes Spark publish its environment again, now with the live Hadoop settings.
    context.addFile(__file__)
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    hadoop = java.statusStore().environmentInfo().hadoopProperties()
    parent = Path(f"/proc/{os.getppid()}")
    print(
        json.dumps(
            {
                "hadoop": {hadoop.apply(i)._1(): hadoop.apply(i)._2() for i in range(hadoop.size())},
                "properties": dict(context.getConf().getAll()),
                "arguments": (parent / "cmdline").read_text(),
                "environment": (parent / "environ").read_text(),
                "live_key_length": len(
                    java.hadoopConfiguration().get(f"fs.azure.account.key.{batch.output.split('@')[1].split('/')[0]}")
                ),
            }
        )
    )
    return 0


if __name__ == "__main__":
    run_batch(show)
