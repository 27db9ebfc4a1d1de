"""A driver's log: as the other programs write it, of Python and of Java, or as the user's program set it up."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.secrets import LEAKS, ORDINARY

ROOT = Path(__file__).parents[3]
BEGIN = "import logging; from eventconsumer_spark.program.environment import set_up_log"
SAY = "logging.getLogger('eventconsumer_spark').warning('batch %d goes on', 3)"


def said(*lines: str) -> list[str]:
    """What a program writes to standard error."""
    program = "\n".join([BEGIN, *lines])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


def entry(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


def test_json_lines_first_without_and_then_with_the_resource() -> None:
    job = "from types import SimpleNamespace as N; job = N(resource=N(namespace='shop', name='orders'))"
    first, second = map(entry, said("set_up_log()", SAY, job, "set_up_log(job)", SAY))
    assert (first["message"], first["level"], first["logger"]) == ("batch 3 goes on", "warning", "eventconsumer_spark")
    assert "namespace" not in first
    assert (second["namespace"], second["name"], second["message"]) == ("shop", "orders", "batch 3 goes on")


def test_a_log_that_the_user_s_program_set_up_stays() -> None:
    assert said("logging.basicConfig(format='mine: %(message)s')", "set_up_log()", SAY) == ["mine: batch 3 goes on"]


def test_an_uncaught_error_of_a_program_with_its_own_session_shows_no_signature() -> None:
    program = """
from eventconsumer_spark.program.environment import hide_secrets_of_uncaught_errors
hide_secrets_of_uncaught_errors()
raise OSError("PUT https://shop.blob.core.windows.net/c/b?sv=1&sig=abc%3D&se=2 failed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.endswith("c/b?sv=1&sig=***&se=2 failed\n")


SAYS_AS_JAVA = """
import json, sys
from pyspark.java_gateway import launch_gateway
jvm = launch_gateway().jvm
log = jvm.org.apache.logging.log4j.LogManager.getLogger("java")
for text in json.load(sys.stdin):
    log.warn(text)
    log.error("failed", jvm.java.lang.IllegalStateException(text))
"""
QUOTED = 'a "quoted" \\ text\n in two lines\t\u00e4\u0001'
LONG = (
    "%3A%2F%2Fa%3A",
    "x-",
    "basic ",
    "A",
    "=",
    "-----BEGIN ",
    "authorization: ",
    "eyJ",
    "eyJhbGciOiJub25lIn0.",
    "secret",
    "sig%3D",
    "sig%25",
    "sig=\\",
    "SharedAccessSignature%20",
    "://a:",
)


def said_by_java(texts: list[str]) -> list[dict[str, Any]]:
    """What Java writes about texts with the configuration of the image: two entries each, the second an exception."""
    environment = {**os.environ, "SPARK_CONF_DIR": str(ROOT / "spark/conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", SAYS_AS_JAVA],
        input=json.dumps(texts),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [entry(line) for line in done.stderr.splitlines() if line.startswith("{")]
    return [line for line in lines if line["logger"] == "java"]


@pytest.fixture(scope="module")
def by_java() -> list[dict[str, Any]]:
    """Entries about each example of the redaction, in order."""
    return said_by_java([*(leak.text for leak in LEAKS), *ORDINARY, QUOTED, *(part * 10_000 for part in LONG)])


def test_java_writes_the_same_fields(by_java: list[dict[str, Any]]) -> None:
    (line,) = said("set_up_log()", "try: 1 / 0", "except ZeroDivisionError: logging.getLogger('x').exception('bad')")
    message, error = by_java[:2]
    assert list(entry(line)) == list(error)
    assert list(message) == list(error)[:-1]
    assert (message["level"], error["level"], error["message"]) == ("warning", "error", "failed")


def test_java_hides_what_python_hides(by_java: list[dict[str, Any]]) -> None:
    for leak, (message, error) in zip(LEAKS, zip(by_java[::2], by_java[1::2], strict=True), strict=False):
        for written in (message["message"], error["exception"]):
            assert leak.secret not in written, leak.name
            assert "***" in written
        assert error["exception"].startswith("java.lang.IllegalStateException: ") and "\tat " in error["exception"]


def test_java_keeps_ordinary_text_and_long_text(by_java: list[dict[str, Any]]) -> None:
    kept = by_java[2 * len(LEAKS) :: 2]
    assert [line["message"] for line in kept[: len(ORDINARY) + 1]] == [*ORDINARY, QUOTED]
    assert len(kept) == len(ORDINARY) + 1 + len(LONG)  # each was written: neither time nor stack was short
