"""What a driver is given: the job's description in its environment, and a log on standard error."""

import logging
import sys
from collections.abc import Mapping

from pydantic import ValidationError

from eventconsumer_api.batch import BatchJob
from eventconsumer_api.labels import BATCH_JOB_ENV
from eventconsumer_spark.errors import ConfigurationError


def set_up_log() -> None:
    """Log to standard error, one line an entry; where the program has set up a log already, to that."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("azure").setLevel(logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING)


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
