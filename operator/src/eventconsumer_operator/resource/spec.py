"""Reads the spec with the same models that made the CRD's schema. Pure.

The API server has checked the resource already, unless its CRD is of another version than this operator: then the
message says which field, as if the API server had refused it.
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
        SpecError: Names the first field that is wrong.
    """
    try:
        spec = EventConsumerSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(["spec", *(str(part) for part in first["loc"])])
        remedy = "correct the field, or install the CRD of this operator's version"
        raise SpecError(path, f"{first['msg']}; {remedy}") from error
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
