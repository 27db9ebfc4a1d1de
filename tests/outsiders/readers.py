"""Programs that read files: each is called as its own documentation says, and gives rows as Python values.

A reader takes a `ReadableContainer` and a path below it: a folder, whose Parquet files it reads at any depth.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import daft
import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from daft.io import AzureConfig, IOConfig
from datafusion.object_store import MicrosoftAzure
from pyarrow.fs import AzureFileSystem, FileSelector
from pyiceberg.catalog import load_catalog

from tests.outsiders.stage import OutsiderStage, Row, utc
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess

COLUMNS = (
    "sequence_number",
    "offset",
    "enqueued_time",
    "partition_key",
    "partition_id",
    "body",
    "properties",
    "content_type",
    "message_id",
    "correlation_id",
)
"""Columns that are compared with the event as Microsoft's SDK receives it."""


@dataclass(frozen=True)
class ReadableContainer:
    """A container: as a local folder, or in storage."""

    container: str
    local: Path | None
    azurite: AzuriteProcess

    def url(self, path: str) -> str:
        """A path as most programs name it."""
        return str(self.local / self.container / path) if self.local else f"az://{self.container}/{path}"

    @property
    def options(self) -> dict[str, str]:
        """The access of programs that are built on object_store (Rust)."""
        if self.local:
            return {}
        access = {"account_name": ACCOUNT, "account_key": KEY}
        return {"allow_http": "true", "azure_endpoint": self.azurite.url, **access}


Reader = Callable[[ReadableContainer, str], list[Row]]


def place(stage: OutsiderStage, container: str, where: str) -> ReadableContainer:
    """A container of the stage: `local` or `azure`."""
    return ReadableContainer(container, stage.local if where == "local" else None, stage.azurite)


def duck_with(*extensions: str) -> duckdb.DuckDBPyConnection:
    """A connection without a network: its extensions are those of the pinned packages."""
    made = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    site = Path(duckdb.__file__).parents[1]
    for name in extensions:
        made.execute(f"LOAD '{site}/duckdb_extension_{name}/extensions/v{duckdb.__version__}/{name}.duckdb_extension'")
    made.execute("SET TimeZone = 'UTC'")
    return made


def duck(place: ReadableContainer) -> duckdb.DuckDBPyConnection:
    """A connection that reads the storage of a place."""
    made = duck_with("avro", "azure", "delta")
    made.execute(f"CREATE SECRET (TYPE azure, CONNECTION_STRING '{place.azurite.connection_string}')")
    return made


def duck_rows(found: duckdb.DuckDBPyRelation) -> list[Row]:
    """Rows of a relation."""
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def azure_files(azurite: AzuriteProcess) -> AzureFileSystem:
    """The file system of PyArrow, which pandas uses."""
    at = f"{azurite.host}:{azurite.port}"
    return AzureFileSystem(
        account_name=ACCOUNT,
        account_key=KEY,
        blob_storage_authority=at,
        blob_storage_scheme="http",
        dfs_storage_authority=at,
        dfs_storage_scheme="http",
    )


def _found(place: ReadableContainer, path: str) -> dict[str, Any]:
    """Arguments of PyArrow: a local folder, or the files of a folder in storage.

    Its client of Azure takes the empty blob that Hadoop writes for a folder for a file; a local folder has none.
    """
    if place.local:
        return {"source": place.url(path)}
    storage = azure_files(place.azurite)
    entries = storage.get_file_info(FileSelector(f"{place.container}/{path}", recursive=True))
    files = [each.path for each in entries if each.path.endswith(".parquet")]
    return {"source": files, "filesystem": storage}


def read_pandas(place: ReadableContainer, path: str) -> list[Row]:
    found = _found(place, path)
    frame = pd.read_parquet(found.pop("source"), **found)
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def read_pyarrow(place: ReadableContainer, path: str) -> list[Row]:
    found: list[Row] = pq.read_table(**_found(place, path)).to_pylist()
    return found


def read_polars(place: ReadableContainer, path: str) -> list[Row]:
    return pl.scan_parquet(place.url(f"{path}/**/*.parquet"), storage_options=place.options).collect().to_dicts()


def read_duckdb(place: ReadableContainer, path: str) -> list[Row]:
    with duck(place) as made:
        return duck_rows(made.read_parquet(place.url(f"{path}/**/*.parquet"), hive_partitioning=True))


def read_datafusion(place: ReadableContainer, path: str) -> list[Row]:
    context = datafusion.SessionContext()
    if not place.local:
        store = MicrosoftAzure(place.container, ACCOUNT, KEY, use_emulator=True, allow_http=True)
        context.register_object_store("az://", store, place.container)
    found: list[Row] = context.read_parquet(place.url(f"{path}/")).to_arrow_table().to_pylist()
    return found


def read_daft(place: ReadableContainer, path: str) -> list[Row]:
    access = AzureConfig(storage_account=ACCOUNT, access_key=KEY, endpoint_url=place.azurite.url, use_ssl=False)
    return daft.read_parquet(place.url(f"{path}/**/*.parquet"), io_config=IOConfig(azure=access)).to_pylist()


def read_pyiceberg(place: ReadableContainer, path: str) -> list[Row]:
    """Nothing of ours writes metadata of Iceberg; `add_files` makes a table of files as they are."""
    assert place.local
    folder = place.local / place.container / path
    files = sorted(str(file) for file in folder.rglob("*.parquet"))
    catalog = load_catalog("local", type="in-memory", warehouse=f"file://{place.local}/iceberg")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pq.read_schema(files[0]).remove_metadata())
    table.add_files(files)
    found: list[Row] = table.scan().to_arrow().to_pylist()
    return found


LOCAL: dict[str, Reader] = {
    "pandas": read_pandas,
    "pyarrow": read_pyarrow,
    "polars": read_polars,
    "duckdb": read_duckdb,
    "datafusion": read_datafusion,
    "daft": read_daft,
    "pyiceberg": read_pyiceberg,
}
READERS = [(name, "local") for name in LOCAL] + [(name, "azure") for name in LOCAL if name not in {"pyiceberg", "daft"}]
"""Reader and place. PyIceberg needs another package for Azure's storage; daft 0.6 finds no blob in Azurite."""


def emulated(azurite: AzuriteProcess) -> str:
    """The URL by which programs that are built on object_store (Rust) find an Azurite, in AZURITE_BLOB_STORAGE_URL."""
    return azurite.url.removesuffix(f"/{ACCOUNT}")


def texts(sent: Iterable[Row]) -> list[Row]:
    """The events that were sent, with properties as Parquet files hold them: as text."""
    return [row | {"properties": {key: _text(value) for key, value in row["properties"].items()}} for row in sent]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def normal(row: Row, columns: Iterable[str] = COLUMNS) -> Row:
    """A row with the same Python types from every reader."""
    return {name: _plain(name, row[name]) for name in columns}


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows by partition and number: readers of several files have no order."""
    return sorted(rows, key=lambda row: (row["partition_id"], row["sequence_number"]))


def _plain(name: str, value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if name == "enqueued_time":
        return utc(value)
    if name.endswith("properties"):
        entries = value.items() if isinstance(value, dict) else value
        return dict((each["key"], each["value"]) if isinstance(each, dict) else tuple(each) for each in entries)
    return value.as_py() if isinstance(value, pa.Scalar) else value
