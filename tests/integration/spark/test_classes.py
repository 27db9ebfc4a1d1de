"""The archive of Java's classes: the order of its list, and that Java takes the classes of Spark from it."""

import importlib.util
import subprocess
from pathlib import Path

from tests.integration.spark.drivers import ARCHIVE, start_options

FILE = Path(__file__).parents[3] / "spark/classes/archive.py"
SPEC = importlib.util.spec_from_file_location("archive", FILE)
assert SPEC is not None and SPEC.loader is not None
archive = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(archive)


def test_the_list_is_in_one_order_with_lambda_expressions_last() -> None:
    lines = ["# made by Java", "b/B", "@lambda-proxy b/B run", "a/A", "b/B", "@lambda-form-invoker x"]
    expected = ["a/A", "b/B", "@lambda-form-invoker x", "@lambda-proxy b/B run"]
    assert archive.sorted_list(lines) == archive.sorted_list(reversed(lines)) == expected


def test_java_takes_classes_from_the_archive_if_its_jars_come_first(jars: str, tmp_path: Path) -> None:
    assert ARCHIVE.exists(), "run make classes"
    classpath, option = start_options(jars)
    (tmp_path / "log4j2.properties").touch()  # Java makes no archive with such a folder on the class path, but uses one

    def source_of(classes: str, name: str) -> str:
        command = ["java", option, "-Xlog:class+load", "-cp", classes, "org.apache.spark.deploy.SparkSubmit", "--help"]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
        (found,) = [line for line in ended.stdout.splitlines() if f" {name} source: " in line]
        return found.partition(" source: ")[2]

    submit = "org.apache.spark.deploy.SparkSubmit"
    assert source_of(f"{classpath}:{tmp_path}", submit) == "shared objects file"
    assert source_of(f"{tmp_path}:{classpath}", submit).startswith("file:")  # slower, and no error
