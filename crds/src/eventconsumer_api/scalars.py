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
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""Name of a Kubernetes object."""
ImageName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9._:/@+\[\]-]+$")]
"""Name of an image. Source: github.com/distribution/reference, grammar of `reference`."""
ConsumerGroup = Annotated[
    str, Field(min_length=1, max_length=50, pattern=r"^(\$[Dd]efault|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)$")
]
"""Source: Microsoft.EventHub in learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules."""
PartitionId = Annotated[str, Field(min_length=1, max_length=8, pattern=r"^[0-9]+$")]
OneLine = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Text without control characters."""
JavaMemory = Annotated[str, Field(max_length=16, pattern=r"^[0-9]+[mg]$")]
