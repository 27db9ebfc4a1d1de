"""Files of both formats, as hosts encode them, read into the same rows; bodies decoded; folders replaced."""

import io
import json
import random
import struct
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.storage.blob import BlobServiceClient
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from eventconsumer_api.spec.body_columns import schema_columns
from eventconsumer_api.spec.spark import Body, BodyType
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.batch import BatchFile, BatchManifest, Totals
from eventconsumer_api.wire.capture import AVRO_SCHEMA, UNDECODED
from eventconsumer_api.wire.file_columns import COLUMNS, Column, delta_schema
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_host.sink import avro, parquet
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.columns import to_batch
from eventconsumer_host.source.schema import arrow_type
from eventconsumer_spark.errors import ConfigurationError, CountMismatchError, ManifestError
from eventconsumer_spark.input.capture import as_events
from eventconsumer_spark.input.reading import EVENT_SCHEMA, check_count, read_events
from eventconsumer_spark.output.bodies import NO_DOCUMENT, NO_JSON, NO_OBJECT, NO_UTF8, UNDECODED_MESSAGE, split
from eventconsumer_spark.output.folder import list_files, write_folder
from eventconsumer_spark.storage.abfs import AbfsFolder
from tests.integration.spark import live
from tests.support.azurite import AzuriteProcess

PROPERTIES = SimpleNamespace
START_MS = 1_767_323_045_678


@pytest.fixture
def place(azurite: AzuriteProcess, service: BlobServiceClient) -> AbfsFolder:
    """An empty container."""
    return live.folder(service.create_container(azurite.container()).container_name, azurite)


class Fields(SimpleNamespace):
    """AMQP's properties section, as the client gives it."""

    def _asdict(self) -> dict[str, object]:
        return dict(vars(self))


def message(number: int, body: bytes | None, properties: dict[object, object] | None = None) -> SimpleNamespace:
    """A decoded AMQP message."""
    return SimpleNamespace(
        message_annotations={
            b"x-opt-sequence-number": number,
            b"x-opt-offset": str(number * 100).encode(),
            b"x-opt-enqueued-time": START_MS + number,
            b"x-opt-partition-key": f"key-{number % 3}".encode() if number % 4 else None,
            b"x-opt-custom": number if number % 2 else b"text",
        },
        application_properties=properties or {},
        properties=Fields(
            message_id=f"m{number}" if number % 2 else number,
            correlation_id=UUID(int=number) if number % 3 else None,
            content_type=b"application/json" if number % 2 else None,
            user_id=b"\xff\x00",
            group_sequence=number,
            reply_to_group_id=b"back",
            creation_time=START_MS,
        ),
        data=None if body is None else [body],
        sequence=None,
        value=None,
    )


def floats() -> list[float]:
    """Numbers whose shortest text is easy and hard to find."""
    rng = random.Random(7)
    special = [0.0, -0.0, 1.0, 0.1, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308, 2e23]
    special += [float("inf"), float("-inf"), 1 / 3, 2 / 3, 9007199254740993.0, 100.0, 1e22, 1e23, 4.35, 0.3]
    bits = (struct.unpack("<d", rng.randbytes(8))[0] for _ in range(300))
    return special + [number for number in bits if number == number] + [rng.uniform(-1e6, 1e6) for _ in range(100)]


def every_type() -> EventBatch:
    """Events with every type of property."""
    values: list[object] = [
        b"text",
        "ä=ö",
        b"\xff\xfe" * 60,
        None,
        True,
        False,
        5,
        -1,
        2**63 - 1,
        2**64,
        Decimal("1.50"),
    ]
    values += [UUID(int=5), [1, "a", b"\xff"], {"a": 1}, b"", "5", "null", float("nan")]
    messages = [message(n, f"body {n}".encode(), {b"value": value, "n": n}) for n, value in enumerate(values)]
    messages += [message(1000 + n, b"", {f"f{n}": number}) for n, number in enumerate(floats())]
    return to_batch(messages)


def manifest_of(names: list[str], form: FileFormat, count: int) -> BatchManifest:
    return BatchManifest(
        chain="c",
        number=1,
        created_at=datetime.now(UTC),
        reason="Files",
        resource=ResourceRef(namespace="shop", name="orders", uid="u"),
        segment_id="i",
        format=form,
        files=[BatchFile(path=name, etag="", size=1000, partition="7", first=0, last=0, count=count) for name in names],
        ranges={},
        next={},
        totals=Totals(),
    )


def plain(frame: DataFrame) -> list[dict[str, object]]:
    """Rows in order; times as microseconds, so that no time zone is in the way."""
    rows = frame.withColumn("enqueued_time", F.unix_micros("enqueued_time")).orderBy("sequence_number").collect()
    return [row.asDict() for row in rows]


@pytest.mark.parametrize(
    "name",
    ["shop/orders/segment=1/partition=7/from=00000000000000000000.avro", "shop/ns/hub/7/2026/01/02/03/04/05.avro"],
    ids=["SequenceNumber", "Capture"],
)
def test_an_event_reads_the_same_from_either_format(
    name: str, spark: SparkSession, place: AbfsFolder, service: BlobServiceClient
) -> None:
    batch = every_type()
    slot = "shop/orders/segment=1/partition=7/from=00000000000000000000.parquet"
    for path, content in ((slot, parquet.encode([batch], "7", {})), (name, avro.encode([batch], "7", {}))):
        service.get_blob_client(place.container, path).upload_blob(b"".join(content))
    first = manifest_of([slot], FileFormat.PARQUET, len(batch))
    second = manifest_of([name], FileFormat.AVRO, len(batch))
    expected, found = read_events(spark, first, place), read_events(spark, second, place)
    assert found.schema.simpleString() == expected.schema.simpleString() == EVENT_SCHEMA.simpleString()
    assert check_count(found, second) == check_count(expected, first) == len(batch)
    assert plain(found) == plain(expected)
    assert found.select("_metadata.file_path").distinct().first()[0].endswith(name)
    with pytest.raises(CountMismatchError, match="difference -1"):
        check_count(found, manifest_of([name], FileFormat.AVRO, len(batch) + 1))


def test_a_column_that_avro_files_have_as_a_system_property_is_read_with_its_type(
    spark: SparkSession, place: AbfsFolder, service: BlobServiceClient
) -> None:
    """Columns that are added to the table: their values are in the files here already."""
    kinds = {"user-id": "binary", "group-sequence": "long", "creation-time": "timestamp", "reply-to-group-id": "string"}
    added = [Column(name.replace("-", "_"), kind, "", system_property=name) for name, kind in kinds.items()]
    name = "shop/orders/segment=1/partition=7/from=00000000000000000005.avro"
    content = b"".join(avro.encode([to_batch([message(5, b"x")])], "7", {}))
    service.get_blob_client(place.container, name).upload_blob(content)
    records = spark.read.format("avro").option("avroSchema", AVRO_SCHEMA).load(place.child(name))
    events = as_events(records, [*COLUMNS, *added])
    assert events.schema.simpleString() == StructType.fromJson(delta_schema([*COLUMNS, *added])).simpleString()
    (row,) = plain(events.withColumn("creation_time", F.unix_millis("creation_time")))
    assert [row[each.name] for each in added] == [b"\xff\x00", 5, START_MS, "back"]
    assert row["system_properties"] == {"x-opt-custom": "5"}


def test_files_with_columns_of_bodies_are_read_as_those_without(
    spark: SparkSession, place: AbfsFolder, service: BlobServiceClient
) -> None:
    batch, name = every_type(), "shop/orders/segment=1/partition=7/from={:020d}.parquet"
    plain_file = b"".join(parquet.encode([batch], "7", {}))
    table = pq.read_table(pa.BufferReader(plain_file))
    for column in schema_columns("cents DECIMAL(10, 2), at TIMESTAMP, items ARRAY<STRUCT<sku: STRING, qty: BIGINT>>"):
        kind = arrow_type(column.type)
        items = [{"sku": "a", "qty": 1}] if pa.types.is_nested(kind) else 5
        table = table.append_column(column.name, pa.array(([items, None] * len(table))[: len(table)], kind))
    typed_file = io.BytesIO()
    pq.write_table(table, typed_file, compression="zstd")
    for start, content in ((0, plain_file), (1, typed_file.getvalue())):
        service.get_blob_client(place.container, name.format(start)).upload_blob(content)
    old, new = (manifest_of([name.format(start)], FileFormat.PARQUET, len(batch)) for start in (0, 1))
    both = old.model_copy(update={"files": [*old.files, *new.files]})
    assert plain(read_events(spark, new, place)) == plain(read_events(spark, old, place))
    assert check_count(read_events(spark, both, place), both) == 2 * len(batch)
    assert read_events(spark, both, place).schema.simpleString() == EVENT_SCHEMA.simpleString()


@pytest.mark.parametrize("form", FileFormat)
def test_files_without_rows_are_read_beside_others_and_alone(
    form: FileFormat, spark: SparkSession, place: AbfsFolder, service: BlobServiceClient
) -> None:
    """The handler dropped all their events."""
    encode, batch = (parquet if form is FileFormat.PARQUET else avro).encode, every_type()
    name = f"shop/orders/segment=1/partition=7/from={{:020d}}.{form.lower()}"
    for start, batches in ((0, []), (1, [batch])):
        content = b"".join(encode(batches, "7", {"from": str(start)}))
        service.get_blob_client(place.container, name.format(start)).upload_blob(content)
    empty = manifest_of([name.format(0)], form, 0)
    full = manifest_of([name.format(1)], form, len(batch))
    assert check_count(read_events(spark, empty, place), empty) == 0
    both = full.model_copy(update={"files": [*empty.files, *full.files]})
    assert check_count(read_events(spark, both, place), both) == len(batch)


def test_a_file_whose_name_says_another_partition_is_refused(spark: SparkSession, place: AbfsFolder) -> None:
    moved = manifest_of(["shop/orders/segment=1/partition=8/from=00000000000000000000.avro"], FileFormat.AVRO, 1)
    with pytest.raises(ManifestError, match="is of partition 7, its name says 8"):
        read_events(spark, moved, place)


def bodies(spark: SparkSession, contents: list[bytes | None]) -> DataFrame:
    """Events with these bodies, in a file's place."""
    own = ("sequence_number", "partition_id", "body")
    rows = [Row(sequence_number=n, partition_id="7", body=body) for n, body in enumerate(contents)]
    return spark.createDataFrame(rows, "sequence_number BIGINT, partition_id STRING, body BINARY").select(
        *(
            F.col(field.name) if field.name in own else F.lit(None).cast(field.dataType).alias(field.name)
            for field in EVENT_SCHEMA
        ),
        F.struct(F.lit("file").alias("file_path")).alias("_metadata"),
    )


ANY = [
    (b'{"id":1,"name":"x"}', None, (1, "x", None)),
    (b' {"id":1,"more":{}} ', None, (1, None, None)),
    (b"{}", None, (None, None, None)),
    (b'{"inner":{"at":5}}', None, (None, None, (5,))),
    (b'{"id":"1x"}', "column id: bigint has no exact value for this string", None),
    (b'{"inner":{"at":"y"}}', "column inner: struct<at:int> has no exact value for this object", None),
    (b"[1]", NO_OBJECT, None),
    (b"null", NO_OBJECT, None),
    (b"5", NO_OBJECT, None),
    (b"", NO_DOCUMENT, None),
    (b'{"id":1} x', NO_DOCUMENT, None),
    (b'{"id":1}{"id":2}', NO_DOCUMENT, None),
    (b'{"id":1}}', NO_DOCUMENT, None),
    (b"{'id':1}", NO_DOCUMENT, None),
    (b'{"id":1', NO_DOCUMENT, None),
    (b"\xff", NO_UTF8, None),
    (None, None, None),
]
"""Body, cause with a schema, what it is parsed to."""


def test_json_with_a_schema_is_parsed_and_a_misfit_is_an_error(spark: SparkSession) -> None:
    events = bodies(spark, [body for body, _, _ in ANY])
    result = split(events, Body(type=BodyType.JSON, schema="id BIGINT, name STRING, inner STRUCT<at: INT>"))
    assert result.unfit is not None
    causes = {row["sequence_number"]: row["cause"] for row in result.unfit.collect()}
    assert causes == {n: cause for n, (_, cause, _) in enumerate(ANY) if cause}
    parsed = {row["sequence_number"]: row["body"] for row in result.fitting.collect()}
    assert parsed == {n: value for n, (_, cause, value) in enumerate(ANY) if not cause}
    for frame in (result.fitting, result.unfit):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("parseJson(") == 1


def test_a_schema_that_is_none_is_refused_with_the_field(spark: SparkSession) -> None:
    for text in ("id BIGINT,", "id NOTYPE", "BIGINT"):
        with pytest.raises(ConfigurationError, match=r"spec\.spark\.output\.body\.schema: .*use Spark DDL"):
            split(bodies(spark, []), Body(type=BodyType.JSON, schema=text))


@pytest.mark.parametrize("kind", [BodyType.JSON, BodyType.TEXT])
def test_text_and_json_without_a_schema_stay_text(kind: BodyType, spark: SparkSession) -> None:
    contents: list[bytes | None] = [
        b'{"a":[1]}',
        b"5",
        b"null",
        b'"x"',
        b"",
        b"{",
        b"a b",
        b"NaN",
        b"[] 1",
        b"\xc3",
        None,
    ]
    expected = {
        n: NO_UTF8 if body == b"\xc3" else NO_JSON
        for n, body in enumerate(contents)
        if body is not None and (body == b"\xc3" or (kind is BodyType.JSON and not is_json(body)))
    }
    result = split(bodies(spark, contents), Body(type=kind))
    assert result.unfit is not None
    assert {row["sequence_number"]: row["cause"] for row in result.unfit.collect()} == expected
    kept = {row["sequence_number"]: row["body"] for row in result.fitting.collect()}
    assert kept == {n: None if body is None else body.decode() for n, body in enumerate(contents) if n not in expected}


def test_what_is_not_utf_8_is_found_as_python_finds_it(spark: SparkSession) -> None:
    rng = random.Random(3)
    edges = [
        b"\x80",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"a\xe2\x82",
        "\ufffd\u20ac\U0001f600\0%s".encode(),
    ]
    alphabet = [
        b"a",
        b"%d",
        b"\xc3",
        b"\xa4",
        "ä".encode(),
        "€".encode(),
        b"\xe2\x82",
        "😀".encode(),
        b"\xf0\x9f",
        b"\xff",
    ]
    contents: list[bytes | None] = [*edges, *(b"".join(rng.choices(alphabet, k=rng.randrange(6))) for _ in range(2000))]
    result = split(bodies(spark, contents), Body(type=BodyType.TEXT))
    assert result.unfit is not None
    found = {row["sequence_number"] for row in result.unfit.select("sequence_number").collect()}
    assert found == {n for n, body in enumerate(contents) if body is not None and not is_utf_8(body)}


@pytest.mark.parametrize("kind", [BodyType.JSON, BodyType.TEXT])
def test_an_undecoded_event_is_distinguished(kind: BodyType, spark: SparkSession) -> None:
    events = bodies(spark, [b"{}", b"{}"]).withColumn(
        "system_properties",
        F.when(F.col("sequence_number") == 1, F.create_map(F.lit(UNDECODED), F.lit("cause"))),
    )
    result = split(events, Body(type=kind))
    assert result.unfit is not None
    assert [(row["sequence_number"], row["cause"]) for row in result.unfit.collect()] == [(1, UNDECODED_MESSAGE)]
    assert [row["sequence_number"] for row in result.fitting.collect()] == [0]


def test_null_bodies_stay_null_in_either_format_and_beside_older_files(
    spark: SparkSession, place: AbfsFolder, service: BlobServiceClient
) -> None:
    batches = [
        to_batch([message(n, body) for n, body in each]) for each in ([(0, b"a"), (1, b"")], [(2, None), (3, b"b")])
    ]
    for form, encode in ((FileFormat.PARQUET, parquet.encode), (FileFormat.AVRO, avro.encode)):
        names = [f"o/segment=1/partition=7/from={n:020d}.{form.value.lower()}" for n in (0, 2)]
        for name, batch in zip(names, batches, strict=True):
            service.get_blob_client(place.container, name).upload_blob(b"".join(encode([batch], "7", {})))
        manifest = manifest_of(names, form, 2)
        events = read_events(spark, manifest, place)
        assert check_count(events, manifest) == 4
        assert [row["body"] for row in plain(events)] == [b"a", b"", None, b"b"]


def is_utf_8(body: bytes) -> bool:
    """Whether Python decodes it."""
    try:
        return body.decode() is not None
    except UnicodeDecodeError:
        return False


def is_json(body: bytes) -> bool:
    """Whether Python takes it, which is strict but for NaN."""
    try:
        return json.loads(body) is None or body != b"NaN"
    except ValueError:
        return False


def test_a_folder_holds_what_was_written_last_and_nothing_else(
    spark: SparkSession, azurite: AzuriteProcess, place: AbfsFolder, service: BlobServiceClient
) -> None:
    folder = place.child("out/batch=7")
    assert write_folder(spark.range(100).withColumn("date", F.lit("2026-01-02")), folder, ["date"]) == 100
    assert write_folder(spark.range(30).coalesce(1), folder) == 30
    assert spark.read.parquet(folder).count() == 30
    first = next(path.getName() for path in list_files(spark, folder) if path.getName().endswith(".parquet"))
    content = service.get_blob_client(place.container, f"out/batch=7/{first}").download_blob().readall()
    access, container = azurite.connection_string, place.container

    def while_it_runs(number: int) -> tuple[int]:
        # A task of an attempt that was given up puts its file, after the folder was emptied for this write.
        with BlobServiceClient.from_connection_string(access) as client:
            client.get_blob_client(container, f"out/batch=7/{first}").upload_blob(content, overwrite=True)
        return (number,)

    rows = spark.createDataFrame(spark.sparkContext.parallelize([1, 2], 1).map(while_it_runs), "id BIGINT")
    assert write_folder(rows, folder) == 2
    assert spark.read.parquet(folder).count() == 2
    assert first not in {path.getName() for path in list_files(spark, folder)}
    assert write_folder(spark.range(0), folder) == 0
    assert spark.read.parquet(folder).count() == 0
