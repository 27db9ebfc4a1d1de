"""A driver's log: as the other programs write it, of Python and of Java, or as the user's program set it up."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BEGIN = "import logging; from eventconsumer_spark.program.environment import set_up_log"
SAY = "logging.getLogger('eventconsumer.spark').warning('batch %d goes on', 3)"


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
    assert (first["message"], first["level"], first["logger"]) == ("batch 3 goes on", "warning", "eventconsumer.spark")
    assert "namespace" not in first
    assert (second["namespace"], second["name"], second["message"]) == ("shop", "orders", "batch 3 goes on")


def test_a_log_that_the_user_s_program_set_up_stays() -> None:
    assert said("logging.basicConfig(format='mine: %(message)s')", "set_up_log()", SAY) == ["mine: batch 3 goes on"]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    """The form of a line that Java writes."""
    text = (ROOT / "spark/conf/log4j2.properties").read_text().replace("\\\n", "")
    found = re.search(r"^appender\.console\.layout\.eventTemplate = (.*)$", text, re.MULTILINE)
    assert found
    return entry(found[1])


def test_java_writes_the_same_fields(template: dict[str, Any]) -> None:
    (line,) = said("set_up_log()", "try: 1 / 0", "except ZeroDivisionError: logging.getLogger('x').exception('bad')")
    assert list(entry(line)) == list(template)
