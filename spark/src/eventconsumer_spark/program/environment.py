"""Environment of a driver: the job's description in a variable, and a log on standard error."""

import logging
from collections.abc import Mapping

from pydantic import ValidationError

from eventconsumer_api import logs
from eventconsumer_api.batch import BatchJob
from eventconsumer_api.labels import BATCH_JOB_ENV
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
