"""The recipes of docs/how-to/read.md, run as they are written, but for names of places and the access to Azurite."""

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
from azure.storage.blob import BlobServiceClient
from pyspark.sql import DataFrame

from docs.generate.pages import DOCS, blocks
from tests.outsiders.readers import azure_files, duck_rows, in_order, place
from tests.outsiders.readers import duck as connect
from tests.outsiders.stage import NO_TEXT, PREFIX, OutsiderStage, Row

PAGE = DOCS / "how-to/read.md"
COMMITTED, FILES, BODIES = "Committed batches", "Drained files without a table", "JSON in bodies"
OLD, NEW = "feedfacefeedface", "cafecafecafecafe"


def recipes() -> dict[tuple[str, str], str]:
    """(section, program) -> code."""
    found, heading = {}, {}
    lines = PAGE.read_text().splitlines()
    for block in blocks(PAGE):
        for line in lines[: block.line]:
            level, _, title = line.partition(" ")
            if level in ("##", "###"):
                heading[level] = title
        found[heading["##"], heading["###"]] = block.text
    return found


RECIPES = recipes()


@pytest.fixture(scope="module")
def pruned(stage: OutsiderStage) -> str:
    """A container with drained files whose hub was created again, and whose first file was pruned."""
    name = stage.azurite.container()
    with BlobServiceClient.from_connection_string(stage.azurite.connection_string) as service:
        container = service.create_container(name)
        root = stage.local / stage.drained["Parquet"]
        for file in root.rglob("*"):
            path, content = str(file.relative_to(root)), b"" if file.is_dir() else file.read_bytes()
            if "/segment=" in path and file.suffix == ".parquet":
                era, rest = path.partition("/segment=")[2].split("/", 1)
                first = path.endswith("partition=0/from=00000000000000000000.parquet")
                container.upload_blob(f"{PREFIX}/segment={OLD}/{rest}", b"" if first else content)
                container.upload_blob(f"{PREFIX}/segment={NEW}/{rest}", content)
                assert era not in (OLD, NEW)
            elif file.is_file():
                container.upload_blob(path, content)
    return name


class Kitchen:
    """Runs recipes of the page, one after the other, with one set of names."""

    def __init__(self, stage: OutsiderStage, drained: str) -> None:
        self.stage, self.drained = stage, drained
        self.azure = place(stage, drained, "azure")
        self.names: dict[str, Any] = {
            "storage_": azure_files(stage.azurite),
            "access_": self.azure.options,
            "spark": stage.spark,
        }

    def _adapted(self, section: str, program: str) -> str:
        text = RECIPES[section, program]
        host = self.stage.host
        for documented, here in {
            'AzureFileSystem(account_name="shop", account_key="<key>")': "storage_",
            '{"account_name": "shop", "account_key": "<key>"}': "access_",
            "<connection string>": self.stage.azurite.connection_string,
            "abfss://drained@shop.dfs.core.windows.net/": f"abfs://{self.drained}@{host}/",
            "az://drained/": f"az://{self.drained}/",
            '"drained/': f'"{self.drained}/',
        }.items():
            text = text.replace(documented, here)
        assert "shop.dfs" not in text and "<key>" not in text and "drained/" not in text.replace(self.drained, "")
        return text

    def cook(self, section: str, program: str) -> list[Row]:
        """The rows that a recipe finds."""
        text = self._adapted(section, program)
        if program == "DuckDB":
            with connect(self.azure) as made:
                *before, last = [each for each in text.split(";\n") if each.strip()]
                for statement in before:
                    made.execute(statement.replace("CREATE SECRET", "CREATE SECRET own"))
                return duck_rows(made.sql(last))
        exec(text, self.names)
        found = self.names["found"]
        if isinstance(found, pl.DataFrame):
            return found.to_dicts()
        if isinstance(found, DataFrame):
            return [row.asDict() for row in found.collect()]
        return [{str(key): value for key, value in row.items()} for row in found.to_dict("records")]


Make = Callable[[str], Kitchen]
pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture
def kitchen(stage: OutsiderStage) -> Iterator[Make]:
    yield lambda drained: Kitchen(stage, drained)


def keys(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_every_program_has_each_recipe_and_each_is_run() -> None:
    programs = ("pandas", "polars", "DuckDB", "Spark")
    assert set(RECIPES) == {(section, each) for section in (COMMITTED, FILES, BODIES) for each in programs}


@pytest.mark.parametrize("program", ["pandas", "polars", "DuckDB", "Spark"])
def test_only_committed_batches_are_read(stage: OutsiderStage, kitchen: Make, program: str) -> None:
    made = kitchen(stage.drained["Parquet"])
    if program == "polars":
        made.cook(COMMITTED, "pandas")
    found = in_order(made.cook(COMMITTED, program))
    sent = [row | {"body": row["body"].decode()} for row in stage.of_batches(1, 2) if row["body"] != NO_TEXT]
    columns = ("partition_id", "sequence_number", "body")
    assert keys(found, *columns) == keys(sent, *columns)


@pytest.mark.parametrize("program", ["pandas", "polars", "DuckDB", "Spark"])
def test_files_are_read_beside_tombstones_and_keys_of_two_segments_differ(
    stage: OutsiderStage, kitchen: Make, pruned: str, program: str
) -> None:
    made = kitchen(pruned)
    if program == "pandas":
        made.names |= {"storage": made.names["storage_"], "pd": __import__("pandas"), "re": __import__("re")}
        exec("from pyarrow.fs import FileSelector", made.names)
    made.names["access"] = made.names["access_"]
    made.names["pl"] = pl
    found = made.cook(FILES, program)
    sent = keys(stage.sent, "partition_id", "sequence_number")
    kept = [key for key in sent if key not in keys(stage.of_batches(1), "partition_id", "sequence_number")[:6]]
    expected = [(NEW, *key) for key in sent] + [(OLD, *key) for key in kept]
    assert sorted(keys(found, "segment", "partition_id", "sequence_number")) == sorted(expected)


@pytest.mark.parametrize("program", ["pandas", "polars", "DuckDB", "Spark"])
def test_json_is_found_in_bodies_of_any_content(stage: OutsiderStage, kitchen: Make, program: str) -> None:
    made = kitchen(stage.drained["Parquet"])
    made.names |= {"access": made.names["access_"], "pl": pl, "json": __import__("json")}
    found = in_order(made.cook(BODIES, program))
    ids = [row["json"].get("id") if "json" in row else row["id"] for row in found]
    expected = [
        (row["partition_id"], row["sequence_number"], str(row["wave"] * 100))
        for row in stage.sent
        if row["body"].startswith(b'{"id"')
    ]
    given = [
        (*key, str(number)) for key, number in zip(keys(found, "partition_id", "sequence_number"), ids, strict=True)
    ]
    assert [each for each in given if each[2] != "None"] == expected
