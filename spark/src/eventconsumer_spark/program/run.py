"""The outermost function of a driver: environment, log, exit code and termination message.

Invariant: every error ends in a code other than 0 and one redacted line, in the log and in the pod's status.
"""

import logging
import os
import traceback

from eventconsumer_api.shared.redaction import redact
from eventconsumer_spark.attempt.causes import root_cause
from eventconsumer_spark.attempt.shutdown import Ending, leave_message
from eventconsumer_spark.batch import Program
from eventconsumer_spark.errors import SparkJobError
from eventconsumer_spark.program.environment import load_job, set_up_log
from eventconsumer_spark.program.process import process, totals_message

log = logging.getLogger(__name__)


def run_batch(program: Program) -> None:
    """Process the batch that the environment describes, or in reprocessing the batches.

    Exit code: 0 all batches that it began are committed, by any attempt; 1 not committed; 143 terminated (SIGTERM) in a
    batch or in reprocessing.
    """
    set_up_log()
    ending = Ending()
    try:
        ending.install()
        job = load_job(os.environ)
        set_up_log(job)
        last = process(job, program, os.environ, ending)
    except SparkJobError as error:
        ending.give_up(f"{type(error).__name__}: {error}")
    except Exception as error:
        ending.join()
        # Text of a library, which may contain a signed URL.
        log.error("%s", redact(traceback.format_exc()))
        ending.give_up(root_cause(error))
    else:
        if job.reprocess:
            leave_message(totals_message(job.reprocess, last))
