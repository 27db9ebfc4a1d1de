"""Where the leases of partitions are, which are also the checkpoints."""

from enum import StrEnum

from pydantic import Field

from eventconsumer_api.model import Model, rules
from eventconsumer_api.v1alpha1.authentication import Authentication
from eventconsumer_api.v1alpha1.storage import BlobPrefix, ContainerName, StorageUrl


class LeaseLayout(StrEnum):
    """How leases and checkpoints are stored."""

    EVENT_PROCESSOR_HOST = "EventProcessorHost"
    AZURE_SDK = "AzureSdk"


class LeaseStore(Model):
    """The blob container that holds partition leases, which are also the checkpoints."""

    model_config = rules(
        (
            "has(self.authentication.connectionStringSecretRef) || has(self.storageAccountUrl)",
            "leaseStore: storageAccountUrl is required with workloadIdentity",
        ),
        (
            "self.container == oldSelf.container",
            "leaseStore.container cannot change: checkpoints would be lost; create another EventConsumer",
        ),
        (
            "self.layout == oldSelf.layout",
            "leaseStore.layout cannot change: checkpoints would be lost; create another EventConsumer",
        ),
    )

    storage_account_url: StorageUrl | None = Field(
        default=None, description="Blob endpoint, such as https://shop.blob.core.windows.net."
    )
    container: ContainerName = Field(description="Container of the lease blobs; created where missing.")
    prefix: BlobPrefix | None = Field(
        default=None,
        description="Put before the names of leases as it is, without a separator. Absent: in layout "
        "EventProcessorHost <namespace of the hub>/<hub>/, in layout AzureSdk nothing, so that leases of two hubs "
        "never meet. An empty prefix is where an EventProcessorHost without storageBlobPrefix keeps its leases. With "
        "another prefix the files alone say where reading goes on.",
    )
    layout: LeaseLayout = Field(
        default=LeaseLayout.EVENT_PROCESSOR_HOST,
        description="EventProcessorHost: one leased blob a partition. AzureSdk: ownership and checkpoint blobs of the "
        "current Azure SDKs, whose processors may then share the partitions.",
    )
    shared: bool = Field(
        default=False,
        description="Other programs share these leases and write checkpoints. What they process is then recorded as a "
        "gap between the files; else a checkpoint that no file ends at is refused.",
    )
    lease_duration_seconds: int = Field(
        default=60,
        ge=15,
        le=60,
        description="Duration of a partition lease, seconds. Leases are renewed at three fifths of it, one request for "
        "each partition. A host that dies is replaced within a second where the operator sees it, else after the "
        "duration.",
    )
    authentication: Authentication = Field(description="How hosts sign in to the storage account.")
