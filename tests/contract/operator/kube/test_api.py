"""What the operator relies on in the Kubernetes API: the same tests for the fake and for a real API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_operator.errors import Changed, Gone
from eventconsumer_operator.kube.api import Api, KubernetesApi
from eventconsumer_operator.kube.manifest import CONFIG_MAP, EVENT, EVENT_CONSUMER
from eventconsumer_operator.kube.ownership import created_entries, handed_over
from tests.contract.operator.conftest import Cluster
from tests.support.fakes.kubernetes import FakeKubernetes, event_consumer

SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
SPEC = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
}


class ApiNamespace:
    """An API and a namespace of its own."""

    def __init__(self, api: Api, namespace: str, create: Any) -> None:
        self.api = api
        self.namespace = namespace
        self.create = create

    async def found(self, kind: Kind = CONFIG_MAP, name: str = "c") -> Manifest:
        """An object that exists."""
        manifest = await self.api.get(kind, self.namespace, name)
        assert manifest is not None
        return manifest


@pytest.fixture(params=["fake", "real"])
def place(request: pytest.FixtureRequest) -> Iterator[ApiNamespace]:
    if request.param == "fake":
        fake = FakeKubernetes()
        yield ApiNamespace(fake, "shop", fake.put)
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    api: KubernetesApi = request.getfixturevalue("api")

    def create(manifest: Manifest) -> None:
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))

    yield ApiNamespace(api, cluster.namespace(), create)


def config_map(place: ApiNamespace, data: dict[str, str], **metadata: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": place.namespace} | metadata,
        "data": data,
    }


async def test_apply_merges_removes_fields_applied_before_and_spares_those_of_others(place: ApiNamespace) -> None:
    place.create(config_map(place, {"theirs": "x"}))
    await place.api.apply(config_map(place, {"a": "1", "b": "2"}))
    await place.api.apply(config_map(place, {"b": "3"}))
    first = await place.found()
    assert first["data"] == {"theirs": "x", "b": "3"}
    await place.api.apply(config_map(place, {"b": "3"}))
    second = await place.found()
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_create_returns_none_where_the_name_is_taken(place: ApiNamespace) -> None:
    created = await place.api.create(config_map(place, {"a": "1"}))
    assert created is not None and created["data"] == {"a": "1"}
    assert await place.api.create(config_map(place, {"a": "2"})) is None
    found = await place.found()
    assert found["data"] == {"a": "1"}


async def test_fields_of_a_creation_are_removed_by_an_apply_once_they_are_handed_over(place: ApiNamespace) -> None:
    created = await place.api.create(config_map(place, {"a": "1", "b": "2"}))
    assert created is not None and created_entries(created)
    changed = await place.api.merge(CONFIG_MAP, place.namespace, "c", {"metadata": {"labels": {"theirs": "x"}}})
    with pytest.raises(Changed):
        await place.api.merge(CONFIG_MAP, place.namespace, "c", handed_over(created))
    merged = await place.api.merge(CONFIG_MAP, place.namespace, "c", handed_over(changed))
    assert not created_entries(merged) and merged["data"] == created["data"]
    applied = await place.api.apply(config_map(place, {"b": "3"}, uid=created["metadata"]["uid"]))
    assert applied["data"] == {"b": "3"}


async def test_delete_spares_an_object_with_another_uid(place: ApiNamespace) -> None:
    await place.api.create(config_map(place, {}))
    found = await place.found()
    await place.api.delete(CONFIG_MAP, place.namespace, "c", "00000000-0000-0000-0000-000000000000")
    assert await place.api.get(CONFIG_MAP, place.namespace, "c") is not None
    await place.api.delete(CONFIG_MAP, place.namespace, "c", found["metadata"]["uid"])
    assert await place.api.get(CONFIG_MAP, place.namespace, "c") is None
    await place.api.delete(CONFIG_MAP, place.namespace, "c", found["metadata"]["uid"])  # gone already: no error


async def test_list_selects_by_labels_and_names_the_kind_also_in_all_namespaces(place: ApiNamespace) -> None:
    mine = {labels.LABEL_CONSUMER: f"of-{place.namespace}"}
    await place.api.create(config_map(place, {}, labels=mine))
    await place.api.create(config_map(place, {}, name="other", labels={labels.LABEL_CONSUMER: "other"}))
    for namespace in (place.namespace, ""):
        found = await place.api.list(CONFIG_MAP, namespace, mine)
        assert [(item["kind"], item["metadata"]["name"]) for item in found.items] == [("ConfigMap", "c")]
        assert [item["metadata"]["namespace"] for item in found.items] == [place.namespace]


async def test_a_list_has_a_version_that_is_not_older_than_its_objects(place: ApiNamespace) -> None:
    first = await place.api.create(config_map(place, {}))
    listing = await place.api.list(CONFIG_MAP, place.namespace)
    second = await place.api.apply(config_map(place, {"a": "1"}))
    assert first is not None
    versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second)]
    assert versions[0] <= int(listing.version) < versions[1]


async def test_apply_with_a_uid_spares_an_object_with_another(place: ApiNamespace) -> None:
    with pytest.raises(Changed):
        await place.api.apply(config_map(place, {"a": "1"}, uid="00000000-0000-0000-0000-000000000000"))
    assert await place.api.get(CONFIG_MAP, place.namespace, "c") is None
    created = await place.api.apply(config_map(place, {"a": "1"}))
    with pytest.raises(Changed):
        await place.api.apply(config_map(place, {"a": "2"}, uid="00000000-0000-0000-0000-000000000000"))
    same = await place.api.apply(config_map(place, {"a": "3"}, uid=created["metadata"]["uid"]))
    assert same["data"] == {"a": "3"}


async def test_merge_changes_some_fields_and_answers_with_all(place: ApiNamespace) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": place.namespace},
        "involvedObject": {"namespace": place.namespace, "name": "x"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "count": 1,
    }
    assert await place.api.create(event) is not None
    merged = await place.api.merge(EVENT, place.namespace, "e", {"count": 2})
    assert (merged["count"], merged["message"]) == (2, "m")
    with pytest.raises(Gone):
        await place.api.merge(EVENT, place.namespace, "nobody", {"count": 2})


async def test_replace_is_refused_where_the_version_is_another(place: ApiNamespace) -> None:
    assert isinstance(place.api, KubernetesApi | FakeKubernetes)
    created = await place.api.create(config_map(place, {"a": "1"}))
    assert created is not None
    replaced = await place.api.replace(created | {"data": {"b": "2"}})
    assert replaced["data"] == {"b": "2"}
    with pytest.raises(Changed):
        await place.api.replace(created | {"data": {"c": "3"}})
    await place.api.delete(CONFIG_MAP, place.namespace, "c", created["metadata"]["uid"])
    with pytest.raises((Gone, Changed)):
        await place.api.replace(replaced)


async def test_status_is_written_apart_from_the_spec(place: ApiNamespace) -> None:
    place.create(event_consumer("orders", SPEC, place.namespace))
    before = await place.found(EVENT_CONSUMER, "orders")
    await place.api.apply_status(
        event_consumer("orders", {}, place.namespace) | {"status": {"observedGeneration": 1, "replicas": 3}}
    )
    after = await place.found(EVENT_CONSUMER, "orders")
    assert after["status"] == {"observedGeneration": 1, "replicas": 3}
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_status_of_another_version_or_of_nothing_is_not_written(place: ApiNamespace) -> None:
    place.create(event_consumer("orders", SPEC, place.namespace))
    found = await place.found(EVENT_CONSUMER, "orders")
    manifest = event_consumer("orders", {}, place.namespace) | {"status": {"replicas": 3}}
    manifest["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
    await place.api.apply_status(manifest)
    manifest["status"] = {"replicas": 4}
    with pytest.raises(Changed):
        await place.api.apply_status(manifest)
    assert (await place.found(EVENT_CONSUMER, "orders"))["status"] == {"replicas": 3}
    with pytest.raises(Gone):
        await place.api.apply_status(event_consumer("nobody", {}, place.namespace) | {"status": {"replicas": 3}})
