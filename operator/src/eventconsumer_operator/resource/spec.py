"""Reads the spec with the models from which the CRD's schema is generated. Pure.

The API server has already validated the resource, unless its CRD has another version than this operator. Then the error
names the field, as an error of the API server would.

Of a cron expression the schema only checks that it has five fields; the library that hosts use checks whether they
match a time.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cronsim import CronSim, CronSimError
from pydantic import ValidationError

from eventconsumer_api.v1alpha1 import Authentication, EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.kube.manifest import CONTENT_MAX_BYTES, OVERSIZED

_SCHEDULE_FIELD = "spec.spark.trigger.schedule"
_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # any date: the library searches 50 years


def parse_spec(raw: Mapping[str, Any]) -> EventConsumerSpec:
    """Return the validated spec.

    Raises:
        SpecError: A field is invalid; names the first one.
    """
    if OVERSIZED in raw:
        raise SpecError(
            "spec",
            f"the resource has {raw[OVERSIZED]} bytes, more than {CONTENT_MAX_BYTES}: shorten its lists and maps, such "
            "as spec.spark.application.arguments, spec.startingPosition.partitions and spec.pods.affinity",
        )
    try:
        spec = EventConsumerSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(["spec", *(str(part) for part in first["loc"])])
        cause = first["msg"]
        raise SpecError(path, f"{cause}; correct the field, or install the CRD of this operator's version") from error
    for field, authentication in (
        ("spec.eventHub", spec.event_hub.authentication),
        ("spec.checkpointStore", spec.checkpoint_store.authentication),
        ("spec.sink", spec.sink.authentication),
    ):
        _check_authentication(f"{field}.authentication", authentication)
    check_schedule(spec)
    return spec


def check_schedule(spec: EventConsumerSpec) -> None:
    """Check the schedule, if there is one.

    Raises:
        SpecError: It is not a cron expression, or never matches a date.
    """
    if spec.spark is None or not spec.spark.trigger.schedule:
        return
    expression = spec.spark.trigger.schedule
    try:
        matches = next(CronSim(expression, _SOME_DAY), None) is not None
    except CronSimError as error:
        raise SpecError(
            _SCHEDULE_FIELD,
            f"{expression!r} is not a cron expression of five fields ({error}): use one such as 0 * * * *",
        ) from None
    if not matches:
        raise SpecError(_SCHEDULE_FIELD, f"{expression!r} never matches a date: use one that does, such as 0 * * * *")


def _check_authentication(field: str, authentication: Authentication) -> None:
    chosen = [authentication.connection_string_secret_ref, authentication.workload_identity]
    if sum(choice is not None for choice in chosen) != 1:
        raise SpecError(field, "set exactly one of connectionStringSecretRef and workloadIdentity")
