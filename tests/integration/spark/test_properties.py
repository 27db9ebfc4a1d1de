"""The properties that users may set, read by Spark itself: each is one of Spark's, and accepts its form."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway

from eventconsumer_api.spec.spark_conf import ALLOWED, Form
from tests.integration.spark.drivers import start_options
from tests.integration.spark.test_pods import MODULE, Builders, executor_of, made

DEFAULTS = "spark.databricks.delta.properties.defaults."
# Registered when its class is loaded.
ENTRIES = (
    "org.apache.spark.internal.config.package$",
    "org.apache.spark.internal.config.Network$",
    "org.apache.spark.internal.config.Python$",
    "org.apache.spark.sql.internal.SQLConf$",
    "org.apache.spark.sql.internal.StaticSQLConf$",
    "org.apache.spark.sql.delta.sources.DeltaSQLConf$",
)


@pytest.fixture(scope="module")
def gateway(jars: str) -> Iterator[JavaGateway]:
    """A JVM with Spark and Delta, and a session, by which Delta validates properties of tables."""
    classpath, _ = start_options(jars)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-class-path '{classpath}' pyspark-shell")
        patch.setenv("SPARK_LOCAL_IP", os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"))
        found = launch_gateway()
    for name in ENTRIES:
        module(found, name)
    builder = found.jvm.org.apache.spark.sql.SparkSession.builder()
    session = builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield found
    session.stop()
    found.shutdown()
    found.proc.stdin.close()  # the JVM ends
    found.proc.wait()


def module(gateway: JavaGateway, name: str) -> Any:
    """The object of a Scala module."""
    package, _, last = name.rpartition(".")
    node: Any = gateway.jvm
    for part in package.split("."):
        node = getattr(node, part)
    return getattr(getattr(node, last), MODULE)


@pytest.fixture(scope="module")
def known(gateway: JavaGateway) -> Any:
    """The properties of Spark, by name."""
    return module(gateway, "org.apache.spark.internal.config.ConfigEntry$").knownConfigs()


def accepts(gateway: JavaGateway, known: Any, name: str, value: str) -> bool:
    """Whether Spark, or Delta, reads a value."""
    try:
        if name.startswith(DEFAULTS):
            config = module(gateway, "org.apache.spark.sql.delta.DeltaConfigs$")
            given = gateway.jvm.java.util.HashMap({f"delta.{name.removeprefix(DEFAULTS)}": value})
            to_scala = gateway.jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
            config.validateConfigurations(to_scala(given))
        else:
            known.get(name).valueConverter().apply(value)
    except Py4JJavaError:
        return False
    return True


def test_each_is_a_property_of_spark(known: Any) -> None:
    assert len(ALLOWED) > 200
    assert [name for name in ALLOWED if not name.startswith(DEFAULTS) and known.get(name) is None] == []


def test_no_entry_is_twice() -> None:
    from eventconsumer_api.spec import spark_conf

    names = [name for _, text in spark_conf._NAMES for name in text.split()]
    assert sorted(names) == sorted(set(names))


def test_spark_accepts_each_value_of_the_form(gateway: JavaGateway, known: Any) -> None:
    refused = [
        f"{name}={value}"
        for name, form in ALLOWED.items()
        for value in form.edges
        if not accepts(gateway, known, name, value)
    ]
    assert refused == []


def test_spark_does_refuse_other_values(gateway: JavaGateway, known: Any) -> None:
    """Otherwise the test above proves nothing."""
    for name in ("spark.sql.shuffle.partitions", f"{DEFAULTS}appendOnly", "spark.sql.session.timeZone"):
        assert not accepts(gateway, known, name, "no such value")


def test_no_allowed_value_is_expanded_in_the_pods_that_spark_makes(gateway: JavaGateway, tmp_path: Path) -> None:
    """Spark copies properties into variables and arguments of executors, where Kubernetes expands `$(NAME)`."""
    job = made("Native", mode="Executors")
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(executor_of(job)))
    own = {
        "spark.driver.host": "10.0.0.1",
        "spark.driver.port": "7078",
        "spark.kubernetes.executor.podTemplateFile": str(file),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.container.image": "spark:1",
    }
    copied: set[str] = set()
    for number in range(max(len(form.edges) for form in ALLOWED.values())):
        conf = {name: form.edges[number] for name, form in ALLOWED.items() if number < len(form.edges)}
        try:
            pod = Builders(gateway, conf | own).executor()
        except Py4JJavaError as error:  # such as memory that no pod can have
            assert "IllegalArgumentException" in str(error) or "NumberFormat" in str(error), error
            continue
        (container,) = pod["spec"]["containers"]
        texts = [*container.get("args", []), *(each.get("value") or "" for each in container["env"])]
        assert not [text for text in texts if "$" in text]
        copied |= {name for name in conf if any(f"-D{name}=" in text for text in texts)}
    assert "spark.network.timeout" in copied or "spark.rpc.message.maxSize" in copied


@pytest.mark.parametrize("form", sorted(set(ALLOWED.values()), key=lambda each: each.text), ids=lambda form: form.text)
def test_no_form_has_a_dollar_or_a_control_character(form: Form) -> None:
    assert all(form.fits(edge) for edge in form.edges)
    for character in "$(){}\\\n\r\t\0'\"`;,#%":
        for edge in form.edges:
            assert not form.fits(edge + character) and not form.fits(character + edge)
    assert not re.search(r"\\[sSwWdD]|\[\^", form.pattern)
