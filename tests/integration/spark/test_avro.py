"""Avro bodies by a schema registry, on a real session: versions of a schema, bodies that do not match, attempts."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient
from py4j.protocol import Py4JJavaError
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_api.spec.spark import Body, BodyType, Registry, RegistryType
from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_spark import Batch, WriteResult
from eventconsumer_spark.errors import ConfigurationError, RegistryError
from eventconsumer_spark.input.reading import EVENT_SCHEMA
from eventconsumer_spark.job import write_batch
from eventconsumer_spark.output.avro import NO_ID, find_schemas, split_avro
from eventconsumer_spark.output.bodies import UNDECODED_MESSAGE
from eventconsumer_spark.registry.client import TRIES, SchemaRegistry, open_registry
from tests.integration.spark.consumer import Consumer
from tests.support.avrobodies import encoded, framed
from tests.support.registry import StandInRegistry

Content = tuple[str | None, bytes | None]
"""Content type and body of an event."""
A, B, C = "a" * 32, "b" * 32, "c" * 32
OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
NEW = OLD | {"fields": [*OLD["fields"], NOTE]}
ALL_NULL = OLD | {"fields": [NOTE]}
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "string"}]}


@pytest.fixture
def server() -> Iterator[StandInRegistry]:
    with StandInRegistry() as made:
        yield made


def results(
    spark: SparkSession,
    server: StandInRegistry,
    kind: RegistryType,
    contents: list[tuple[str | None, bytes | None]],
    schema: str = "",
) -> tuple[dict[int, Any], dict[int, str]]:
    """Decoded bodies and causes, by the number of the event in `contents`."""
    rows = [Row(sequence_number=n, content_type=kind_of, body=body) for n, (kind_of, body) in enumerate(contents)]
    own = "sequence_number BIGINT, content_type STRING, body BINARY"
    events = spark.createDataFrame(rows, own).select(
        *(
            F.col(field.name) if field.name in own else F.lit(None).cast(field.dataType).alias(field.name)
            for field in EVENT_SCHEMA
        ),
        F.struct(F.lit("file").alias("file_path")).alias("_metadata"),
    )
    events = events.withColumn(
        "system_properties", F.when(F.col("content_type") == "undecoded", F.create_map(F.lit(UNDECODED), F.lit("x")))
    )
    body = Body(type=BodyType.AVRO, schema_=schema, registry=Registry(type=kind, url=server.url))
    registry = SchemaRegistry(body.registry, token=lambda: "t", sleep=lambda _: None)  # type: ignore[arg-type]
    split = split_avro(events, find_schemas(events, body, registry))
    assert split.unfit is not None
    fitting = {row["sequence_number"]: row.asDict(recursive=True).get("body") for row in split.fitting.collect()}
    return fitting, {row["sequence_number"]: row["cause"] for row in split.unfit.collect()}


def test_versions_of_a_schema_are_read_as_the_newest_and_errors_are_told_apart(
    spark: SparkSession, server: StandInRegistry
) -> None:
    server.schemas |= {A: json.dumps(OLD), B: json.dumps(NEW)}
    server.versions |= {A: 1, B: 2}
    one, two = encoded(OLD, {"id": 1}), encoded(NEW, {"id": 2, "note": "ä"})
    fitting, causes = results(
        spark,
        server,
        RegistryType.AZURE,
        [
            (f"avro/binary+{A}", one),
            (f"AVRO/binary+{B.upper()}", two),
            (f"avro/binary+{A}", None),
            (None, None),
            (f"avro/binary+{C}", one),
            (None, one),
            ("application/json", b"{}"),
            ("avro/binary+../../x", one),
            (f"avro/binary+{A}", b""),
            (f"avro/binary+{A}", one + b"x"),
            (f"avro/binary+{B}", two[:-1]),
            (f"avro/binary+{B}", b"\x02\x02\xfe\xff\xff\xff\x0f"),  # a text of 2 GiB
            (f"avro/binary+{B}", b"\x02\x05"),  # no such branch of the union
            ("undecoded", one),
            (f"avro/binary+{A}", one + b"eventconsumerEnd" + one),  # the mark of versions before this one
        ],
    )
    assert fitting == {0: {"id": 1, "note": None}, 1: {"id": 2, "note": "ä"}, 2: None, 3: None}
    assert causes == {
        4: f"schema {C} is not in the registry",
        **dict.fromkeys((5, 6, 7), NO_ID[RegistryType.AZURE]),
        **dict.fromkeys((8, 9, 14), f"not in Avro of schema {A}"),
        **dict.fromkeys((10, 11, 12), f"not in Avro of schema {B}"),
        13: UNDECODED_MESSAGE,
    }


def test_the_frame_of_confluent_and_a_reader_schema_of_the_spec(spark: SparkSession, server: StandInRegistry) -> None:
    recursive = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    schemas = {1: OLD, 2: NEW, 3: OTHER, 4: recursive, 5: "string", 70_000: ALL_NULL}
    server.schemas |= {str(number): json.dumps(schema) for number, schema in schemas.items()}
    server.others["6"], server.schemas["6"] = "PROTOBUF", "syntax"
    contents = [
        framed(1, encoded(OLD, {"id": 1})),
        framed(2, encoded(NEW, {"id": 2, "note": "x"})),
        framed(70_000, encoded(ALL_NULL, {"note": None})),
        framed(3, encoded(OTHER, {"x": "y"})),
        framed(4, b"\0"),
        framed(5, encoded("string", "y")),
        framed(6, b""),
        framed(0xFFFFFFFF, b""),
        b"\0\0\0",
        b"\1" + framed(1, b"")[1:],
        b"",
    ]
    reader = json.dumps(OLD | {"fields": [NOTE]})
    fitting, causes = results(spark, server, RegistryType.CONFLUENT, [(None, body) for body in contents], reader)
    # A body whose fields are all null is told apart from one that does not match.
    assert fitting == {0: {"note": None}, 1: {"note": "x"}, 2: {"note": None}}
    assert causes[3].startswith("schema 3 is not compatible with the reader schema: /name")
    assert causes[4] == "schema 4 is recursive"
    assert causes[5].startswith("schema 5 is not compatible with the reader schema: /")
    assert causes[6] == "schema 6 is not an Avro schema"
    assert {causes[number] for number in (7, 8, 9, 10)} == {NO_ID[RegistryType.CONFLUENT]}


def test_a_batch_without_a_known_schema_has_no_column_of_bodies(spark: SparkSession, server: StandInRegistry) -> None:
    fitting, causes = results(spark, server, RegistryType.CONFLUENT, [(None, framed(1, b"x")), (None, None)])
    assert fitting == {1: None}
    assert causes == {0: "schema 1 is not in the registry"}


def test_a_reader_schema_that_is_none_is_refused_with_the_field(spark: SparkSession, server: StandInRegistry) -> None:
    bad = json.dumps({"type": "record", "name": "1x", "fields": []})
    for text in ("id BIGINT", bad, json.dumps({"type": "array", "items": "null"})):
        with pytest.raises(ConfigurationError, match=r"spec\.spark\.output\.body\.schema: the Avro schema .*correct"):
            results(spark, server, RegistryType.CONFLUENT, [], text)


def test_an_array_of_any_length_in_a_short_body_is_refused_by_the_decoder(
    spark: SparkSession, server: StandInRegistry
) -> None:
    server.schemas["1"] = json.dumps({"type": "array", "items": {"type": "array", "items": "int"}})
    lengths = [b"\xfe\xff\xff\xff\x0f", b"\xfe\xff\xff\x7f", b"\xff\xff\xff\xff\x0f\x02"]
    _, causes = results(spark, server, RegistryType.CONFLUENT, [(None, framed(1, length)) for length in lengths])
    assert set(causes.values()) == {"not in Avro of schema 1"} and len(causes) == len(lengths)


@pytest.mark.parametrize("output", ["Delta", "Parquet"])
def test_each_attempt_has_the_same_result_also_if_a_schema_is_registered_in_between(
    output: str, consumer: Consumer, server: StandInRegistry
) -> None:
    server.schemas |= {"1": json.dumps(OLD)}
    contents = [framed(1, encoded(OLD, {"id": 1})), framed(2, encoded(NEW, {"id": 2, "note": "x"})), framed(1, b"\xff")]
    consumer.drained.slot("0", 0, 3, body=lambda number: contents[number])
    body = {"type": "Avro", "registry": {"type": "Confluent", "url": server.url}}
    job = consumer.job(1, format=output, body=body)
    folder = f"{job.output.path}_quarantine/batch=1"
    version = 0 if output == "Delta" else None
    first = WriteResult(1, version, 2, folder, "schema 2 is not in the registry: sequence number 1 of partition 0")
    # A registry that does not respond is no reason for a quarantine: the batch waits.
    server.faults = [401]
    with pytest.raises(RegistryError):
        consumer.run(job)
    assert consumer.run(job) == first
    # The first attempt ended before its commit, and the schema was registered meanwhile.
    server.schemas["2"] = json.dumps(NEW)
    again = consumer.run(job)
    if output == "Delta":  # the rows of the first attempt are in the table
        assert again == first
        assert consumer.table(job) == [("0", 0)]
    else:  # the folder is replaced
        corrupt = "not in Avro of schema 1: sequence number 2 of partition 0"
        assert again == WriteResult(2, None, 1, folder, corrupt)
    kept = consumer.spark.read.parquet(folder)
    assert kept.count() == again.quarantined_rows
    assert {row.sequence_number for row in kept.collect()} == ({1, 2} if output == "Delta" else {2})
    # The next batch adds the column of the newer schema.
    consumer.drained.slot("0", 3, 1, body=lambda _: contents[1])
    later = consumer.job(2, format=output, body=body)
    assert consumer.run(later).rows == 1
    if output == "Delta":
        # A later batch that has the older schema only keeps the column.
        consumer.drained.slot("0", 4, 1, body=lambda _: framed(1, encoded(OLD, {"id": 4})))
        assert consumer.run(consumer.job(3, format=output, body=body)).rows == 1
        rows = consumer.spark.read.format("delta").load(job.output.path).orderBy("sequence_number").collect()
        assert [(row.body.id, row.body.note) for row in rows] == [(1, None), (2, "x"), (4, None)]


def test_a_batch_that_ends_between_any_two_steps_is_neither_lost_nor_written_twice(
    consumer: Consumer, server: StandInRegistry, service: BlobServiceClient
) -> None:
    """Steps: the schemas, one by one; the append; the quarantine; the commit. Each attempt is a new driver."""
    server.schemas |= {"1": json.dumps(OLD), "2": json.dumps(NEW)}
    late = framed(3, encoded(NEW, {"id": 3, "note": "y"}))
    contents = [framed(1, encoded(OLD, {"id": 1})), framed(2, encoded(NEW, {"id": 2, "note": "x"})), late]
    consumer.drained.slot("0", 0, 3, body=lambda number: contents[number])
    job = consumer.job(1, format="Delta", body={"type": "Avro", "registry": {"type": "Confluent", "url": server.url}})
    output = service.get_container_client(f"{consumer.drained.container.container_name}-out")

    def attempt(program: Callable[[Batch], WriteResult] = write_batch) -> WriteResult:
        open_registry.cache_clear()
        return consumer.run(job, program)

    def nowhere(batch: Batch) -> WriteResult:
        return write_batch(replace(batch, quarantine_path=batch.quarantine_path.replace("-out@", "-missing@")))

    server.faults = [0, *[503] * TRIES]
    with pytest.raises(RegistryError, match=r"HTTP 503.*the batch waits"):
        attempt()
    assert not server.faults and list(output.list_blob_names()) == [], "one schema was read, and nothing is written"

    with pytest.raises(Py4JJavaError):
        attempt(nowhere)
    assert consumer.table(job) == [("0", 0), ("0", 1)], "appended"
    assert not list(output.list_blob_names(name_starts_with="results_quarantine")), "and no quarantine"

    server.schemas["3"] = json.dumps(NEW)  # registered since
    server.faults = [401]
    with pytest.raises(RegistryError):
        attempt()
    cause = "schema 3 is not in the registry: sequence number 2 of partition 0"
    expected = WriteResult(2, 0, 1, f"{job.output.path}_quarantine/batch=1", cause)
    for _ in range(2):  # the first one ends before its commit
        assert attempt() == expected
        (kept,) = consumer.spark.read.parquet(expected.rows_path).collect()
        assert (kept.sequence_number, bytes(kept.body)) == (2, late)
        rows = consumer.spark.read.format("delta").load(job.output.path).orderBy("sequence_number").collect()
        assert [(row.body.id, row.body.note) for row in rows] == [(1, None), (2, "x")]
