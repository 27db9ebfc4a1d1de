"""Options of the program that the kubectl plugin does not have."""

from pathlib import Path

from eventconsumer_api import commands
from eventconsumer_api.commands import Option, flag
from eventconsumer_api.kube.labels import CONFIG_FILE
from eventconsumer_api.v1alpha1 import LeaseLayout

PrintFormat = commands.PrintFormat

CONFIG = Option(
    "--config", "Configuration file of a host.", Path, Path(CONFIG_FILE), environment="EVENTCONSUMER_CONFIG"
)
CONNECTION_STRING = Option("--connection-string-file", "File with the storage account's connection string.", Path)
HUB_CONNECTION_STRING = Option(
    "--hub-connection-string-file", "Without --config: file with the hub's connection string, with EntityPath.", Path
)
STORAGE = (
    CONNECTION_STRING,
    Option("--account-url", "Blob endpoint; signs in with the Azure CLI, the environment or a managed identity."),
    Option("--container", "Container of the drained files."),
    Option("--prefix", "Folder of the files, spec.sink.prefix."),
    Option("--checkpoint-container", "Container of the leases."),
    Option("--checkpoint-prefix", "spec.checkpointStore.prefix; absent: the default of the layout."),
    Option("--checkpoint-layout", "spec.checkpointStore.layout.", LeaseLayout, LeaseLayout.EVENT_PROCESSOR_HOST),
    Option("--consumer-group", "spec.eventHub.consumerGroup.", default="$Default"),
    flag("--shared-leases", "spec.checkpointStore.shared: other programs move checkpoints too."),
    Option("--storage-api-version", "spec.sink.storageApiVersion; for --connection-string-file and --account-url."),
)
"""Where the files and leases are; the fields of `audit.access.Options`."""
