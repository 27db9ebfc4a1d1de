"""Location of the leases of partitions, which are also the checkpoints."""

from enum import StrEnum

from pydantic import Field

from eventconsumer_api.shared.model import Model, rules
from eventconsumer_api.v1alpha1.authentication import Authentication
from eventconsumer_api.v1alpha1.storage import (
    STORAGE_API_VERSION,
    BlobPrefix,
    ContainerName,
    StorageApiVersion,
    StorageUrl,
)


class LeaseLayout(StrEnum):
    """How leases and checkpoints are stored."""

    EVENT_PROCESSOR_HOST = "EventProcessorHost"
    AZURE_SDK = "AzureSdk"


class LeaseDialect(StrEnum):
    """Spelling of the keys of lease blobs in layout EventProcessorHost."""

    AUTO = "Auto"
    DOT_NET = "DotNet"
    JAVA = "Java"


class CheckpointStore(Model):
    """The blob container that holds partition leases, which are also the checkpoints."""

    model_config = rules(
        (
            "has(self.authentication.connectionStringSecretRef) || has(self.storageAccountUrl)",
            "checkpointStore: storageAccountUrl is required with workloadIdentity",
        ),
        (
            "self.container == oldSelf.container",
            "checkpointStore.container cannot change: checkpoints would be lost; create another EventConsumer",
        ),
        (
            "self.layout == oldSelf.layout",
            "checkpointStore.layout cannot change: checkpoints would be lost; create another EventConsumer",
        ),
    )

    storage_account_url: StorageUrl | None = Field(
        default=None, description="Blob endpoint, such as https://shop.blob.core.windows.net."
    )
    storage_api_version: StorageApiVersion | None = Field(default=None, description=STORAGE_API_VERSION)
    container: ContainerName = Field(description="Container of the lease blobs; created if missing.")
    prefix: BlobPrefix | None = Field(
        default=None,
        description="Prefix of the names of lease blobs; no separator is added. Absent: <namespace of the hub>/<hub>/ "
        "in layout EventProcessorHost, empty in layout AzureSdk, so that leases of two hubs never collide. "
        "Set an empty prefix to take over the leases of an EventProcessorHost without storageBlobPrefix. "
        "After a change of the prefix, hosts continue at the end of the files.",
    )
    layout: LeaseLayout = Field(
        default=LeaseLayout.EVENT_PROCESSOR_HOST,
        description="EventProcessorHost: one leased blob per partition. AzureSdk: ownership and checkpoint blobs of "
        "the current Azure SDKs, whose event processors can then share the partitions. Some SDKs keep the case of "
        "namespace, hub and consumer group in the names of these blobs: hosts find them whatever the case.",
    )
    dialect: LeaseDialect = Field(
        default=LeaseDialect.AUTO,
        description="Spelling of the keys of lease blobs in layout EventProcessorHost. Java (`offset`): the libraries "
        "for Java, JavaScript and .NET read them. DotNet (`Offset`): Java and JavaScript do not read them. Auto: as in "
        "the blobs that exist; Java if there are none, or if some have Java's keys. After a change, a lease gets the "
        "other keys at its next acquisition.",
    )
    shared: bool = Field(
        default=False,
        description="Other programs share these leases and write checkpoints. The events they process are recorded as "
        "a gap between the files. If false, a checkpoint that is not the end of a file is refused.",
    )
    lease_duration_seconds: int = Field(
        default=60,
        ge=15,
        le=60,
        description="Duration of a partition lease, seconds. Hosts renew at three fifths of it, with one request for "
        "each partition. The partitions of a failed host are taken over within a second if the operator "
        "sees the failure, otherwise after the duration.",
    )
    authentication: Authentication = Field(description="Authentication of hosts at the storage account.")
