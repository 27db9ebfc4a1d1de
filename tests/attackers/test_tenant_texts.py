"""Attacks by a tenant's texts: a line that nobody wrote, in conditions, Events and what `kubectl describe` prints."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from eventconsumer_api.shared import model
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
from tests.unit.operator.worlds import IDENTITY, KEY, SECRET, SETTINGS, SPEC, observed

FORGED = "    Message:  the administrator has approved this resource"
ATTACK = f"ok\n{FORGED}\n"
ADMINISTRATOR = replace(
    SETTINGS,
    handler_image_prefixes=("registry.example.com/",),
    spark_image_prefixes=("registry.example.com/",),
    pod_metadata_prefixes=("team",),
    node_label_prefixes=("pool",),
    taint_prefixes=("pool",),
    priority_classes=("drain",),
    storage_classes=("fast",),
    proxy_suffixes=("proxy.example",),
    schema_registries=("https://shop.servicebus.windows.net",),
)


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


INPUTS: dict[str, Any] = {
    "image": "registry.example.com/b:1",
    "env": [{"name": "APP_A", "value": "b"}],
    "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "a"}}],
    "volumes": [{"mountPath": "/config/a", "secret": {"secretName": "a", "items": [{"key": "b", "path": "c"}]}}],
    "egress": [{"to": [{"podSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["shop"]}], "ports": [{"port": 1}]}],
}
PLACE: dict[str, Any] = {
    "annotations": {"team": "b"},
    "labels": {"team": "b"},
    "nodeSelector": {"pool": "b"},
    "tolerations": [{"key": "pool", "value": "b"}],
}
SPECS: dict[str, dict[str, Any]] = {
    "of hosts": {
        "eventHub": {
            "fullyQualifiedNamespace": "shop.servicebus.windows.net",
            "name": "orders",
            "consumerGroup": "drain",
            "authentication": IDENTITY,
        },
        "checkpointStore": {
            "storageAccountUrl": "https://shop.blob.core.windows.net",
            "storageApiVersion": "2019-07-07",
            "container": "leases",
            "prefix": "a",
            "authentication": IDENTITY,
        },
        "sink": {
            "container": "drained",
            "prefix": "b",
            "authentication": SECRET,
            "notices": {
                "url": "https://hooks.shop.example/files",
                "authentication": {"header": "X-Key", "headerSecretRef": {"name": "a", "key": "b"}},
            },
        },
        "startingPosition": {"type": "Offset", "offset": "7", "partitions": {"0": {"type": "Offset", "offset": "8"}}},
        "processing": INPUTS | {"handler": "a.b:C"},
        "replay": {"name": "a", "consumerGroup": "b", "partitions": ["0"], "from": "2026-01-01T00:00:00Z"},
        "proxy": {"url": "http://a.proxy.example:3128", "noProxy": ["b.example"]},
        "pods": PLACE | {"priorityClassName": "drain", "resources": {"limits": {"memory": "1Gi"}}},
    },
    "of Spark": SPEC
    | {
        "spark": {
            "trigger": {"schedule": "0 * * * *"},
            "application": INPUTS
            | {
                "mainFile": "local:///app/mine.py",
                "arguments": ["a"],
                "conf": {"spark.sql.shuffle.partitions": "7"},
            },
            "driver": PLACE | {"memory": "1g", "coreRequest": "1"},
            "executor": PLACE | {"scratch": {"size": "1Gi", "storageClassName": "fast"}},
            "output": {
                "path": "abfss://out@shop.dfs.core.windows.net/orders",
                "body": {
                    "type": "Avro",
                    "schema": '{"type": "record"}',
                    "registry": {
                        "type": "AzureSchemaRegistry",
                        "url": "https://shop.servicebus.windows.net",
                        "authentication": IDENTITY,
                    },
                },
            },
            "reprocess": {"name": "a", "from": 1, "to": 2},
        }
    },
}


@pytest.mark.parametrize("name", SPECS)
async def test_no_field_of_a_spec_writes_a_line_of_its_own(name: str) -> None:
    make_plan(observed(SPECS[name]), ADMINISTRATOR)  # else another mistake would be reported first
    paths = list(places(SPECS[name]))
    assert len(paths) > 25
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
