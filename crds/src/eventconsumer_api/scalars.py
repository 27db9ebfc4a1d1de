"""Scalar types that several parts of the spec have in common."""

from typing import Annotated

from pydantic import BeforeValidator, Field

# The API server compares bounds as doubles, and one that rounds to 2**63 overflows there, so that every number is
# refused. This is the greatest double below it.
NUMBER_MAX = 2**63 - 1024
"""The greatest number in the spec."""


def _number_as_text(value: object) -> object:
    """YAML parses `cpu: 2` as a number; as in Kubernetes, a quantity may be a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    # The constraints precede the validator: after it, pydantic omits the pattern from the JSON schema.
    Field(
        max_length=32,
        pattern=r"^(0|[1-9][0-9]*)(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi)?$",
        json_schema_extra={"x-kubernetes-int-or-string": True},
    ),
    BeforeValidator(_number_as_text),
]
JavaMemory = Annotated[str, Field(max_length=16, pattern=r"^[0-9]+[mg]$")]
