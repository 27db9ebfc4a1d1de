"""Scalar types that several parts of the spec have in common."""

from typing import Annotated

from pydantic import BeforeValidator, Field


def _number_as_text(value: object) -> object:
    """YAML reads `cpu: 2` as a number; like Kubernetes' own resources, a quantity may be written so."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    # The constraints stand before the validator: after it, pydantic leaves the pattern out of the JSON schema.
    Field(
        max_length=32,
        pattern=r"^(0|[1-9][0-9]*)(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi)?$",
        json_schema_extra={"x-kubernetes-int-or-string": True},
    ),
    BeforeValidator(_number_as_text),
]
JavaMemory = Annotated[str, Field(max_length=16, pattern=r"^[0-9]+[mg]$")]
