"""Reads the spec with the models from which the CRD's schema is generated. Pure.

The API server has already validated the resource, unless its CRD has another version than this operator. Then the error
names the field, as an error of the API server would.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from eventconsumer_api.v1alpha1 import Authentication, EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.resource.schedule import check_schedule


def parse_spec(raw: Mapping[str, Any]) -> EventConsumerSpec:
    """Return the validated spec.

    Raises:
        SpecError: A field is invalid; names the first one.
    """
    try:
        spec = EventConsumerSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(["spec", *(str(part) for part in first["loc"])])
        cause = first["msg"]
        raise SpecError(path, f"{cause}; correct the field, or install the CRD of this operator's version") from error
    for field, authentication in (
        ("spec.eventHub", spec.event_hub.authentication),
        ("spec.leaseStore", spec.lease_store.authentication),
        ("spec.sink", spec.sink.authentication),
    ):
        _check_authentication(f"{field}.authentication", authentication)
    check_schedule(spec)
    return spec


def _check_authentication(field: str, authentication: Authentication) -> None:
    chosen = [authentication.connection_string_secret_ref, authentication.workload_identity]
    if sum(choice is not None for choice in chosen) != 1:
        raise SpecError(field, "set exactly one of connectionStringSecretRef and workloadIdentity")
