"""The outermost shell of a driver: its environment, its log, its exit code and its last words.

Invariant: whatever goes wrong ends in a code other than 0 and one redacted line, in the log and in the pod's status.
"""

import logging
import os
import traceback

from eventconsumer_api.redaction import redact
from eventconsumer_spark.attempt.causes import root_cause
from eventconsumer_spark.attempt.shutdown import Ending, leave_message
from eventconsumer_spark.batch import Program
from eventconsumer_spark.errors import SparkJobError
from eventconsumer_spark.program.environment import load_job, set_up_log
from eventconsumer_spark.program.process import process, totals_message

log = logging.getLogger("eventconsumer.spark")


def run_batch(program: Program) -> None:
    """Process the batch that the environment describes, or in a replay the batches.

    Exits with 0 when all is committed, whoever did it; 1 when not; 143 when it was told to end (SIGTERM).
    """
    set_up_log()
    ending = Ending()
    ending.install()
    try:
        job = load_job(os.environ)
        set_up_log(job)
        last = process(job, program, os.environ, ending)
    except SparkJobError as error:
        ending.give_up(f"{type(error).__name__}: {error}")
    except Exception as error:
        # Foreign text: a library may have put a signed address into it.
        log.error("%s", redact(traceback.format_exc()))
        ending.give_up(root_cause(error))
    else:
        if job.replay:
            leave_message(totals_message(job.replay, last))
