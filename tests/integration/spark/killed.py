"""Runs a program's work, and ends like a killed process after it is written and before the commit.

The environment variables PROGRAM and FUNCTION say which.
"""

import os
import runpy

from eventconsumer_spark import Batch, run_batch

work = runpy.run_path(os.environ["PROGRAM"], run_name="program")[os.environ["FUNCTION"]]


def die_between(batch: Batch) -> int:
    """Do all of it, but for the commit."""
    work(batch)
    os.killpg(os.getpgrp(), 9)
    return 0


if __name__ == "__main__":
    run_batch(die_between)
