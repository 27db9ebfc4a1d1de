"""Options that several commands of the program share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from eventconsumer_api.kube.labels import CONFIG_FILE
from eventconsumer_api.v1alpha1 import LeaseLayout


class Output(StrEnum):
    """Output format of a command."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


DEFAULT_CONFIG = Path(CONFIG_FILE)
Config = Annotated[
    Path,
    typer.Option("--config", envvar="EVENTCONSUMER_CONFIG", help="Configuration file of a host."),
]
OutputOption = Annotated[
    Output, typer.Option("-o", "--output", help="Output format: a table, or one document for programs.")
]
ConnectionString = Annotated[
    Path | None, typer.Option("--connection-string-file", help="File with the storage account's connection string.")
]
AccountUrl = Annotated[
    str | None,
    typer.Option(
        "--account-url", help="Blob endpoint; signs in with the Azure CLI, the environment or a managed identity."
    ),
]
StorageApiVersion = Annotated[
    str | None,
    typer.Option(
        "--storage-api-version",
        help="spec.sink.storageApiVersion; for --connection-string-file and --account-url.",
    ),
]
Container = Annotated[str | None, typer.Option("--container", help="Container of the drained files.")]
Prefix = Annotated[str | None, typer.Option("--prefix", help="Folder of the files, spec.sink.prefix.")]
LeaseContainer = Annotated[str | None, typer.Option("--checkpoint-container", help="Container of the leases.")]
LeasePrefix = Annotated[
    str | None,
    typer.Option("--checkpoint-prefix", help="spec.checkpointStore.prefix; absent: the default of the layout."),
]
Layout = Annotated[LeaseLayout, typer.Option("--checkpoint-layout", help="spec.checkpointStore.layout.")]
Group = Annotated[str, typer.Option("--consumer-group", help="spec.eventHub.consumerGroup.")]
Shared = Annotated[
    bool, typer.Option("--shared-leases", help="spec.checkpointStore.shared: other programs move checkpoints too.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Apply the plan. Default: only print it.")]
