"""Names in a storage account, for leases and files."""

from typing import Annotated

from pydantic import Field

# Limits of storage: 3 to 63 characters, lower-case letters, digits, single hyphens between them.
ContainerName = Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9](-?[a-z0-9])+$")]
BlobPrefix = Annotated[str, Field(max_length=512, pattern=r"^([A-Za-z0-9_.=-]+/)*[A-Za-z0-9_.=-]*$")]
StorageUrl = Annotated[str, Field(max_length=512, pattern=r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+)?/?$")]
