"""The CRD on a real API server and the operator allow the same Spark properties, with the same values."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from eventconsumer_api.spec.spark_conf import ALLOWED, VALUE_MAX
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import make_plan
from tests.contract.operator.conftest import Cluster
from tests.support.fakes.kubernetes import event_consumer
from tests.unit.operator.worlds import SETTINGS, SPARK, SPEC, observed, spec_with

MOST = 100
"""Maximum number of properties of a resource."""
WRONG = (
    "",
    "abc",
    "$(PAYROLL)",
    "${env:HOME}",
    "1 ",
    " 1",
    "1\n",
    "+1",
    "1e3",
    "0x10",
    "٣",
    "TRUE",
    "True",
    "-1",
    "00",
    "1g2",
    "../x",
    "a b",
    "1;",
    "-1s",
    "99999999999999",
    "0.0",
    "1.",
    "1" * (VALUE_MAX + 1),
)
"""Values of no form, or of few."""
OTHERS = (
    "spark.jars",
    "spark.driver.extraJavaOptions",
    "spark.sql.extensions",
    "spark.sql.warehouse.dir",
    "spark.master",
    "spark.redaction.regex",
    "spark.sql.shuffle.partitions.x",
    "xspark.sql.shuffle.partitions",
    "sql.shuffle.partitions",
    "spark.sql.Shuffle.partitions",
    "spark.",
    "spark.sql.spark.sql.shuffle.partitions",
    "spark.databricks.delta.enabled",
)


def with_conf(conf: dict[str, str]) -> dict[str, Any]:
    return spec_with("spark.application", {"conf": conf}, SPEC | SPARK)


def operators(conf: dict[str, str]) -> bool:
    """Whether the operator makes a plan."""
    try:
        make_plan(observed(with_conf(conf)), SETTINGS)
    except SpecError as error:
        assert error.field.startswith("spec.spark.application.conf")
        return False
    return True


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> str:
    return cluster.namespace()


def servers(cluster: Cluster, namespace: str, conf: dict[str, str]) -> bool:
    """Whether the API server accepts it."""
    message = cluster.apply(event_consumer("new", with_conf(conf), namespace), dry_run=True)
    assert not message or "spark.application.conf" in message, message
    return not message


def values() -> Iterator[tuple[str, str]]:
    """One property of each form, with the edges of this form, an edge of each other form, and wrong values."""
    examples = {form: name for name, form in ALLOWED.items()}
    others = [form.edges[-1] for form in examples]
    for form, name in examples.items():
        yield from ((name, value) for value in dict.fromkeys((*form.edges, *others, *WRONG)))


def test_each_allowed_property_with_each_edge_is_accepted_by_both(cluster: Cluster, namespace: str) -> None:
    pairs = [(name, edge) for name, form in ALLOWED.items() for edge in form.edges]
    by_round: list[dict[str, str]] = []
    for name, edge in pairs:
        place = next((each for each in by_round if name not in each), None)
        if place is None:
            by_round.append(place := {})
        place[name] = edge
    for each in by_round:
        left = iter(each.items())
        while part := dict(islice(left, MOST)):
            assert operators(part) and servers(cluster, namespace, part)


def test_each_property_is_refused_by_both_with_a_value_of_no_form(cluster: Cluster, namespace: str) -> None:
    for name in ALLOWED:
        assert not operators({name: "$(PAYROLL)"}) and not servers(cluster, namespace, {name: "$(PAYROLL)"}), name


def test_both_decide_alike_on_every_form_and_value(cluster: Cluster, namespace: str) -> None:
    differ = {(n, v) for n, v in values() if operators({n: v}) is not servers(cluster, namespace, {n: v})}
    assert differ == set()


@pytest.mark.parametrize("name", OTHERS)
def test_no_other_property_is_accepted_by_either(cluster: Cluster, namespace: str, name: str) -> None:
    assert not operators({name: "1"}) and not servers(cluster, namespace, {name: "1"})


def test_the_message_names_the_property(cluster: Cluster, namespace: str) -> None:
    conf = {"spark.sql.shuffle.partitions": "64", "spark.log.level": "ALL"}
    message = cluster.apply(event_consumer("new", with_conf(conf), namespace), dry_run=True)
    assert "spark.application.conf: use only properties of docs/reference/properties.md" in message
    assert message.count("spark.log.level") == 1 and "spark.sql.shuffle.partitions" not in message
