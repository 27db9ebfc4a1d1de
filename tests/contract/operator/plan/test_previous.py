"""An upgrade of the operator restarts no host: it plans the same pods as the previous release."""

from pathlib import Path
from typing import Any

from eventconsumer_operator.plan import make_plan
from tests.support.previous import Previous, previous
from tests.unit.operator.worlds import HANDLER, SETTINGS, SPARK, SPEC, observed

RESTARTING: set[str] = set()
"""Commits of releases whose hosts restart at the upgrade to this tree. The CHANGELOG says why."""

PLAN = """
import json
import sys

from eventconsumer_operator.plan import make_plan
from tests.unit.operator.worlds import SETTINGS, observed

found = []
for spec in json.load(sys.stdin):
    applied = make_plan(observed(spec), SETTINGS).applied
    found += [each["spec"]["template"] for each in applied if each["kind"] == "StatefulSet"]
print(json.dumps(found))
"""
SPECS: list[dict[str, Any]] = [SPEC, SPEC | {"processing": HANDLER} | SPARK]


def test_the_previous_release_plans_the_same_pods_of_hosts(tmp_path: Path) -> None:
    applied = [make_plan(observed(spec), SETTINGS).applied for spec in SPECS]
    now = [each["spec"]["template"] for objects in applied for each in objects if each["kind"] == "StatefulSet"]
    then = Previous.check_out(tmp_path).run(PLAN, SPECS)
    assert len(now) == len(SPECS)
    if previous() not in RESTARTING:
        assert now == then, "all hosts restart at the upgrade; if that must be, say so in CHANGELOG and RESTARTING"
