"""A program that prints what Spark shows of itself: its settings, its arguments and its variables.

Spark's pages and its log of events show settings after `Utils.redact`; the image has no web server.
"""

import json
import os
from pathlib import Path

from eventconsumer_spark import Batch, run_batch


def show(batch: Batch) -> int:
    context = batch.spark.sparkContext
    # A file added to a running application makes Spark publish its environment again, with the live Hadoop settings.
    context.addFile(__file__)
    context._jsc.sc().listenerBus().waitUntilEmpty()
    driver = Path(f"/proc/{os.getppid()}")
    spark = context._jsc.sc()
    settings = spark.statusStore().environmentInfo().hadoopProperties()
    shown = {
        "settings": context._jvm.org.apache.spark.util.Utils.redact(spark.conf(), settings).mkString("\n"),
        "arguments": (driver / "cmdline").read_text(),
        "environment": (driver / "environ").read_text(),
    }
    print(json.dumps(shown))
    return 0


if __name__ == "__main__":
    run_batch(show)
