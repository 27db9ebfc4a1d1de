"""Environment of a driver: the job's description in a variable, and a log on standard error."""

import logging
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType

from pydantic import ValidationError

from eventconsumer_api.kube.labels import BATCH_JOB_ENV
from eventconsumer_api.shared import logs
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.wire.batch import BatchJob
from eventconsumer_spark.errors import ConfigurationError

_ours: list[logging.Handler] = []


def set_up_log(job: BatchJob | None = None) -> None:
    """Log to standard error, as the other programs do, or to the log that the user's program has set up.

    Args:
        job: Adds fields to each entry; None: not known yet.
    """
    root = logging.getLogger()
    if not root.handlers or root.handlers == _ours:
        about = {"namespace": job.resource.namespace, "name": job.resource.name} if job else {}
        logs.configure("INFO", stream=None, **about)
        _ours[:] = root.handlers


def hide_secrets_of_uncaught_errors() -> None:
    """Print the traceback of an uncaught exception without secrets, unless the program has a hook of its own.

    The connector's error has the URL of the call, and with it a shared access signature.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_redacted


def _print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def load_job(environment: Mapping[str, str]) -> BatchJob:
    """Parse the job's description from the environment.

    Raises:
        ConfigurationError: The variable is not set or not valid.
    """
    try:
        return BatchJob.model_validate_json(environment[BATCH_JOB_ENV])
    except KeyError:
        raise ConfigurationError(
            f"{BATCH_JOB_ENV} is not set: the operator sets it in the applications that it creates"
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(
            f"{BATCH_JOB_ENV}: {field or 'it'}: {first['msg']}: operator and Spark image must match"
        ) from None
