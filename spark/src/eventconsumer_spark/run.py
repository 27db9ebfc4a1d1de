"""The outermost shell of a driver: its environment, its log, its exit code and its last words.

Invariant: whatever goes wrong ends in exit code 1 and one redacted line, in the log and in the pod's status.
"""

import logging
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pydantic import ValidationError

from eventconsumer_api.batch import BatchJob
from eventconsumer_api.labels import BATCH_JOB_ENV
from eventconsumer_api.redaction import redact
from eventconsumer_spark.batch import Program, process
from eventconsumer_spark.errors import ConfigurationError, SparkJobError

TERMINATION_LOG = Path("/dev/termination-log")
"""Where Kubernetes takes a container's last words from; they end in the pod's status."""

log = logging.getLogger("eventconsumer.spark")


def run_batch(program: Program) -> None:
    """Process the batch that the environment describes, and exit: 0 when it is committed, 1 when it is not."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("azure").setLevel(logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        process(load_job(os.environ), program, os.environ)
    except SparkJobError as error:
        _give_up(f"{type(error).__name__}: {error}")
    except Exception as error:
        # Foreign text: a library may have put a signed address into it.
        log.error("%s", redact(traceback.format_exc()))
        _give_up(redact(_root_cause(error)))


def load_job(environment: Mapping[str, str]) -> BatchJob:
    """Parse the job's description from the environment.

    Raises:
        ConfigurationError: The variable is not set or not valid.
    """
    try:
        return BatchJob.model_validate_json(environment[BATCH_JOB_ENV])
    except KeyError:
        raise ConfigurationError(
            f"{BATCH_JOB_ENV} is not set: the operator sets it in the Jobs that it creates"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"{BATCH_JOB_ENV}: {field or 'it'}: {first['msg']}: operator and Spark image must match"
        ) from None


def _root_cause(error: Exception) -> str:
    """One line; of an error in Java the innermost, which is the one that says something."""
    if not isinstance(error, Py4JJavaError):
        return f"{type(error).__name__}: {error}".splitlines()[0]
    cause = error.java_exception
    while inner := cause.getCause():
        cause = inner
    return str(cause.toString()).splitlines()[0]


def _give_up(message: str) -> None:
    log.error("%s", message)
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(message[:4096])
    sys.exit(1)
