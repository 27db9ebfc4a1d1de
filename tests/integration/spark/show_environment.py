"""A program that prints what Spark shows of itself: the pages of its web server, its arguments and its variables."""

import json
import os
from pathlib import Path
from urllib.request import urlopen

from eventconsumer_spark import Batch, run_batch


def show(batch: Batch) -> int:
    context = batch.spark.sparkContext
    # A file added to a running application makes Spark publish its environment again, with the live Hadoop settings.
    context.addFile(__file__)
    context._jsc.sc().listenerBus().waitUntilEmpty()
    driver = Path(f"/proc/{os.getppid()}")
    api = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
    shown = {
        "page": urlopen(f"{context.uiWebUrl}/environment/").read().decode(),
        "api": json.load(urlopen(api)),
        "arguments": (driver / "cmdline").read_text(),
        "environment": (driver / "environ").read_text(),
    }
    print(json.dumps(shown))
    return 0


if __name__ == "__main__":
    run_batch(show)
