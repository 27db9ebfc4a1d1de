"""Spark properties and images of users: what is allowed changes how fast a program runs, and nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventconsumer_api.spec.spark import PROGRAMS
from eventconsumer_api.spec.spark_conf import ALLOWED
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import make_plan
from tests.unit.operator.worlds import SETTINGS, SPARK, SPEC, USER_IMAGE, batch, fleet, observed, report, spec_with

ROOT = Path(__file__).parents[4]
WITH_SPARK = SPEC | SPARK


def started(application: dict[str, Any], prefixes: tuple[str, ...] = ()) -> Any:
    spec = spec_with("spark.application", application, WITH_SPARK)
    world = observed(spec, reports={"a": report(fleet=fleet(batch=batch()))})
    return make_plan(world, replace(SETTINGS, spark_image_prefixes=prefixes)).spark.started


@pytest.mark.parametrize(
    "conf",
    [
        "spark.sql.shuffle.partitions=64",
        "spark.sql.adaptive.enabled=false",
        "spark.sql.files.maxPartitionBytes=64m",
        "spark.sql.parquet.compression.codec=zstd",
        "spark.sql.session.timeZone=Europe/Berlin",
        "spark.sql.session.timeZone=+02:00",
        "spark.sql.ansi.enabled=true",
        "spark.sql.caseSensitive=true",
        "spark.sql.sources.partitionOverwriteMode=dynamic",
        "spark.sql.autoBroadcastJoinThreshold=-1",
        "spark.databricks.delta.optimizeWrite.enabled=true",
        "spark.databricks.delta.schema.autoMerge.enabled=true",
        "spark.databricks.delta.properties.defaults.appendOnly=true",
        "spark.memory.fraction=0.75",
        "spark.shuffle.compress=true",
        "spark.default.parallelism=16",
        "spark.executor.memoryOverhead=1g",
        "spark.executor.memoryOverheadFactor=0.2",
        "spark.speculation=true",
        "spark.speculation.multiplier=1.5",
        "spark.task.maxFailures=8",
        "spark.network.timeout=300s",
        "spark.driver.maxResultSize=0",
        "spark.sql.execution.python.udf.maxRecordsPerBatch=1000",
        "spark.rpc.message.maxSize=512",
        "spark.log.level=INFO",
    ],
)
def test_what_makes_a_program_faster_is_allowed(conf: str) -> None:
    name, _, value = conf.partition("=")
    assert conf in started({"conf": {name: value}})["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize(
    "conf",
    [
        "spark.sql.shuffle.partitions=abc",
        "spark.sql.shuffle.partitions=0",
        "spark.sql.shuffle.partitions=-1",
        "spark.sql.shuffle.partitions=$(PAYROLL)",
        "spark.sql.shuffle.partitions=${env:HOME}",
        "spark.sql.shuffle.partitions=64\n",
        "spark.sql.shuffle.partitions= 64",
        "spark.sql.shuffle.partitions=٦٤",
        "spark.driver.maxResultSize=$(PAYROLL)",
        "spark.driver.maxResultSize=1 g",
        "spark.memory.fraction=1.5",
        "spark.log.level=ALL",
        "spark.log.level=DEBUG",
        "spark.log.level=TRACE",
        "spark.log.level=info",
        "spark.sql.session.timeZone=$(PAYROLL)",
        "spark.sql.session.timeZone=../etc/passwd",
        "spark.sql.session.timeZone=+25:00",
        "spark.network.timeout=5 minutes",
        "spark.speculation=yes",
        "spark.sql.columnNameOfCorruptRecord=a b",
    ],
)
def test_a_value_of_another_form_is_refused_with_the_form(conf: str) -> None:
    name, _, value = conf.partition("=")
    with pytest.raises(SpecError) as refused:
        started({"conf": {name: value}})
    message = f"spec.spark.application.conf: {name} has a value of another form: use {ALLOWED[name].text}"
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "name",
    [
        # Where, and as whom.
        "spark.master",
        "spark.submit.deployMode",
        "spark.app.name",
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.kubernetes.namespace",
        "spark.kubernetes.authenticate.driver.serviceAccountName",
        "spark.kubernetes.container.image",
        "spark.kubernetes.executor.podTemplateFile",
        "spark.authenticate",
        "spark.network.crypto.enabled",
        "spark.ui.enabled",
        "spark.dynamicAllocation.enabled",
        "spark.executor.memory",
        "spark.executor.instances",
        "spark.driver.memoryOverhead",
        # Other code.
        "spark.jars",
        "spark.jars.packages",
        "spark.files",
        "spark.archives",
        "spark.plugins",
        "spark.pyspark.python",
        "spark.driver.extraJavaOptions",
        "spark.driver.extraClassPath",
        "spark.executor.extraJavaOptions",
        "spark.executorEnv.A",
        "spark.extraListeners",
        "spark.serializer",
        "spark.kryo.registrator",
        "spark.sql.extensions",
        "spark.sql.catalog.other",
        "spark.sql.queryExecutionListeners",
        "spark.sql.catalogImplementation",
        "spark.sql.hive.metastore.jars",
        "spark.sql.cache.serializer",
        "spark.sql.sources.commitProtocolClass",
        "spark.sql.parquet.output.committer.class",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.streaming.streamingQueryListeners",
        "spark.shuffle.manager",
        "spark.shuffle.sort.io.plugin.class",
        "spark.sql.defaultUrlStreamHandlerFactory.enabled",
        "spark.sql.execution.pyspark.python",
        "spark.databricks.delta.properties.defaults.coordinatedCommits.commitCoordinator-preview",
        # Other places.
        "spark.hadoop.fs.azure.account.key.x",
        "spark.sql.warehouse.dir",
        "spark.sql.streaming.checkpointLocation",
        "spark.local.dir",
        "spark.eventLog.dir",
        "spark.eventLog.enabled",
        "spark.redaction.regex",
        "spark.sql.redaction.options.regex",
        "spark.shuffle.service.enabled",
        "spark.sql.redaction.string.regex",
        # No property of Spark, or of another kind.
        "spark.sql.shuffle.partitions.",
        "spark.sql",
        "spark.sql.shuffle.Partitions",
        "spark.sql.sources.default",
        "spark.databricks.delta.write.txnAppId",
        "spark.databricks.delta.commitInfo.userMetadata",
    ],
)
def test_what_decides_where_and_as_whom_and_with_what_code_is_refused_by_name(name: str) -> None:
    with pytest.raises(
        SpecError, match=rf"^spec\.spark\.application\.conf: {name} is (set by the operator|not allowed): "
    ):
        started({"conf": {name: "1"}})


def test_what_has_a_field_of_its_own_is_named() -> None:
    with pytest.raises(SpecError, match=r"use spec\.spark\.executor\.memory"):
        started({"conf": {"spark.executor.memory": "1g"}})


@pytest.mark.parametrize(
    "program",
    [
        # Of Python itself: `timeit.py` runs its argument.
        "local:///usr/local/lib/python3.11/timeit.py",
        "local:///app/../usr/local/lib/python3.11/timeit.py",
        "local:///app/%2e%2e/usr/local/lib/python3.11/timeit.py",
        "local:///app//usr.py",
        "local:///app.py",
        "local:///application/mine.py",
        "local:///app/mine.py,local:///usr/local/lib/python3.11/timeit.py",
        "https://evil.example/app/mine.py",
        "local:///tmp/mine.py",
        "local:///app/mine.py\n",
        "local:///app/mine.py#a",
    ],
)
def test_a_program_is_one_of_those_in_the_folder_of_programs(program: str) -> None:
    with pytest.raises(SpecError, match=r"^spec\.spark\.application\.mainFile: "):
        started({"mainFile": program})


@pytest.mark.parametrize("program", ["local:///app/mine.py", "local:///app/shop/orders-2.1/per_key.py"])
def test_programs_may_be_in_folders(program: str) -> None:
    own = {"image": USER_IMAGE, "mainFile": program}
    assert program in started(own, (USER_IMAGE,))["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("program", ["local:///app/mine.py", "local:///app/eventconsumer_api/resource/crdgen.py"])
def test_without_an_image_of_the_user_only_programs_of_the_shipped_image_run(program: str) -> None:
    with pytest.raises(SpecError, match=r"^spec\.spark\.application\.mainFile: .* is no program of the operator's"):
        started({"mainFile": program})


def test_the_programs_of_the_image_are_those_with_a_main_function() -> None:
    folders = {"eventconsumer_spark": "src/eventconsumer_spark", "examples": "examples"}
    found = {
        f"local:///app/{package}/{file.name}"
        for package, folder in folders.items()
        for file in (ROOT / "spark" / folder).glob("*.py")
        if '\nif __name__ == "__main__":\n' in file.read_text()
    }
    assert found == set(PROGRAMS)
    for program in PROGRAMS:
        assert program in started({"mainFile": program})["spec"]["template"]["spec"]["containers"][0]["args"]


def test_images_of_users_are_limited_to_allowed_images() -> None:
    image = "registry.example/spark/mine:1"
    made = started({"image": image}, ("registry.example/spark/",))
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == image
    with pytest.raises(
        SpecError,
        match=r"^spec\.spark\.application\.image: .*ask the operator's administrator to set sparkImagePrefixes",
    ):
        started({"image": image})
    with pytest.raises(SpecError, match=r"^spec\.spark\.application\.image: .*is not allowed"):
        started({"image": "registry.example/sparkling:1"}, ("registry.example/spark",))


def test_executors_run_the_users_image_too() -> None:
    image = "registry.example/spark/mine:1"
    spec = spec_with("spark.mode", "Executors", spec_with("spark.application.image", image, WITH_SPARK))
    world = observed(spec, reports={"a": report(fleet=fleet(batch=batch()))})
    plan = make_plan(world, replace(SETTINGS, spark_image_prefixes=("registry.example/",)))
    assert plan.spark.started is not None
    arguments = plan.spark.started["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"spark.kubernetes.container.image={image}" in arguments
