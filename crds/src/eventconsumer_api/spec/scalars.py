"""Scalar types that several parts of the spec have in common."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from eventconsumer_api.shared.model import told

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
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            **told("use a number with no unit or with m, k, Ki, M, Mi, G or Gi, such as 500m or 256Mi"),
        },
    ),
    BeforeValidator(_number_as_text),
]
ObjectName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        json_schema_extra=told("use lower-case letters, digits, dots and hyphens, as in names of Kubernetes"),
    ),
]
"""Name of a Kubernetes object."""
PartitionId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=8,
        pattern=r"^[0-9]+$",
        json_schema_extra=told("use the number of a partition in quotes"),
    ),
]
JavaMemory = Annotated[
    str,
    Field(
        max_length=16,
        pattern=r"^[0-9]+[mg]$",
        json_schema_extra=told("use a whole number of MiB or GiB as Spark writes it, such as 512m or 2g"),
    ),
]
SEGMENT = "[.]*[A-Za-z0-9_=-][A-Za-z0-9_.=-]*"
"""A regular expression of one segment of a blob's name or of a path: it is not made of dots alone."""
ConsumerGroupName = Annotated[
    str,
    # Source: learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules, Microsoft.EventHub. It is
    # a segment in the names of blobs (layout AzureSdk) and in addresses of AMQP.
    Field(
        min_length=1,
        max_length=50,
        pattern=r"^(\$[Dd]efault|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)$",
        json_schema_extra=told("use $Default, or the name of a consumer group: letters, digits, dots, _ and -"),
    ),
]

# The grammar of references, without a domain of its own for the short names of Docker Hub. Source: regexp.go of
# github.com/distribution/reference, which container runtimes use, with its maximum length of a name and its tags.
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = rf"({_LABEL}([.]{_LABEL})*|\[[A-Fa-f0-9:]+\])(:[0-9]+)?"
_FOLDER = "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
_DIGEST = "[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}"
ImageName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        pattern=rf"^({_REGISTRY}/)?{_FOLDER}(/{_FOLDER})*(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(@{_DIGEST})?$",
        json_schema_extra=told("use the name of an image, such as registry.example.com/shop/orders:1, in lower case"),
    ),
]
"""The name of an image."""
