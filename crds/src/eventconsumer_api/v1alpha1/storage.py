"""Names in a storage account, for leases and files."""

from typing import Annotated

from pydantic import Field

from eventconsumer_api.shared.model import told
from eventconsumer_api.spec.scalars import SEGMENT

# Limits of storage: 3 to 63 characters, lower-case letters, digits, single hyphens between them.
ContainerName = Annotated[
    str,
    Field(
        min_length=3,
        max_length=63,
        pattern=r"^[a-z0-9](-?[a-z0-9])+$",
        json_schema_extra=told("use 3 to 63 lower-case letters, digits and single hyphens, as storage requires"),
    ),
]
# No empty segments, and none of dots alone: clients of HTTP resolve them (RFC 3986, 5.2.4), and the request, which is
# signed or has a token, would be for another container.
BlobPrefix = Annotated[
    str,
    Field(
        max_length=512,
        pattern=rf"^({SEGMENT}(/{SEGMENT})*/?)?$",
        json_schema_extra=told(
            "use folders of letters, digits, dots, _, = and -, such as shop/orders: without a slash at the start, and "
            "none of dots alone"
        ),
    ),
]
StorageApiVersion = Annotated[
    str,
    Field(
        max_length=10,
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        json_schema_extra=told("use the date of a version of the storage API, such as 2019-07-07"),
    ),
]
STORAGE_API_VERSION = (
    "Version of the storage REST API, such as 2019-07-07, for services that do not support the client library's newest "
    "version: Azure Stack Hub, for example. Absent: the client library's default."
)
StorageUrl = Annotated[
    str,
    Field(
        max_length=512,
        pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+)?/?$",
        json_schema_extra=told("use the URL of the blob endpoint, such as https://shop.blob.core.windows.net"),
    ),
]
