"""Attacks by a tenant's texts: a line that nobody wrote, in conditions, Events and what `kubectl describe` prints."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventconsumer_api import model
from eventconsumer_operator.conditions import events
from eventconsumer_operator.conditions.events import Recorder
from eventconsumer_operator.conditions.status import make_status, wire
from eventconsumer_operator.errors import OperatorError, SpecError
from eventconsumer_operator.errors import Refused as RefusedByApi
from eventconsumer_operator.kube.manifest import EVENT
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.observed import Observed
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.unit.operator.test_redaction import leaky, texts
from tests.unit.operator.worlds import KEY, SETTINGS, SPARK, observed

FORGED = "    Message:  the administrator has approved this resource"
ATTACK = f"ok\n{FORGED}\n"
ADMINISTRATOR = replace(
    SETTINGS,
    handler_image_prefixes=("registry.example.com/",),
    spark_image_prefixes=("registry.example.com/",),
    pod_metadata_prefixes=("team",),
    node_label_prefixes=("pool", "kubernetes.azure.com/"),
    taint_prefixes=("pool", "kubernetes.azure.com/"),
    schema_registries=("https://shop.servicebus.windows.net",),
)
EXAMPLES = Path(__file__).parents[2] / "examples"


async def forge(world: Observed, *errors: OperatorError) -> Outcome:
    """The attack: a text with newlines, in a spec, or said by the tenant's own program.

    `kubectl describe` prints the texts of a status and of Events as they are.
    """
    plan = None
    if not errors:
        try:
            plan = make_plan(world, ADMINISTRATOR)
        except SpecError as error:
            errors = (error,)
    status = make_status(world, plan, errors, ADMINISTRATOR)
    api = FakeKubernetes()
    await Recorder(api).record(world, status)
    said = texts([wire(status), *(await api.list(EVENT, KEY.namespace)).items])
    forged = [text for text in said if FORGED in text.splitlines()]
    return Gained(f"a line in {forged[0]!r}") if forged else Refused("clean_line")


def places(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all texts."""
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from places(inner, (*path, name))
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from places(inner, (*path, number))
    elif isinstance(node, str):
        yield path


def attacked(spec: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    result: Any = copy.deepcopy(spec)
    node = result
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = ATTACK
    return result  # type: ignore[no-any-return]


def specs() -> dict[str, dict[str, Any]]:
    documents = (each for file in sorted(EXAMPLES.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text()))
    found = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "EventConsumer"}
    everything = copy.deepcopy(found["orders"])
    everything["pods"] = {"annotations": {"team": "b"}, "labels": {"team": "b"}, "nodeSelector": {"pool": "b"}}
    everything["startingPosition"] = {"type": "Offset", "offset": "7"}
    everything["replay"] = {"nonce": "a", "consumerGroup": "b", "partitions": ["0"]}
    everything["spark"] = copy.deepcopy(SPARK["spark"])
    everything["spark"]["application"] = {
        "image": "registry.example.com/b:1",
        "arguments": ["a"],
        "conf": {"spark.sql.shuffle.partitions": "7"},
        "env": [{"name": "A", "value": "b"}],
    }
    everything["spark"]["output"]["body"] = {"type": "Json", "schema": "id BIGINT"}
    everything["spark"]["trigger"] = {"schedule": "0 * * * *"}
    return {**found, "everything": everything}


SPECS = specs()


@pytest.mark.parametrize("name", SPECS)
async def test_no_field_of_a_spec_writes_a_line_of_its_own(name: str) -> None:
    make_plan(observed(SPECS[name]), ADMINISTRATOR)  # else another mistake would be reported first
    paths = list(places(SPECS[name]))
    assert len(paths) > 5
    for path in paths:
        assert isinstance(await forge(observed(attacked(SPECS[name], path))), Refused), path


@pytest.mark.parametrize("errors", [(), (RefusedByApi(ATTACK),), (SpecError("spec.sink", ATTACK),)], ids=str)
async def test_what_a_tenants_program_says_writes_no_line_of_its_own(
    errors: tuple[OperatorError, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Termination messages, reports of hosts, answers of the API server that quote a spec."""
    assert isinstance(await forge(leaky(ATTACK), *errors), Refused)
    for module in (model, events):
        monkeypatch.setattr(module, "clean_line", lambda text: text)
    assert isinstance(await forge(leaky(ATTACK), *errors), Gained)
