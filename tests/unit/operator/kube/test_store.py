"""The store against a server: whatever is late, lost or out of order, it ends as the server is and never goes back."""

import copy
import json
import pickle
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1 import KIND
from eventconsumer_operator.errors import Changed, Gone, SpecError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import (
    CONFIG_MAP,
    EVENT_CONSUMER,
    POD,
    STORED,
    ObjectList,
    controller_uid,
    spec_of,
    trimmed,
)
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.writethrough import WriteThrough
from eventconsumer_operator.resource.spec import parse_spec
from tests.support.fakes.kubernetes import FakeKubernetes, event_consumer

SHOP = "shop"
NAMES = ("a", "b", "c")


def config_map(name: str, version: int | str = 1, uid: str = "u", consumer: str = "orders", **values: str) -> Manifest:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": SHOP,
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {labels.LABEL_CONSUMER: consumer},
    }
    if values:
        metadata["annotations"] = {f"eventconsumer.io/{key}": value for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def child(name: str = "orders-host", **fields: Any) -> Manifest:
    """A ConfigMap with an owner and content."""
    manifest = config_map(name)
    manifest["metadata"]["ownerReferences"] = [{"kind": KIND, "name": "orders", "uid": "u", "controller": True}]
    return manifest | fields


def held(store: Store) -> dict[str, Manifest]:
    return {name: found for name in NAMES if (found := store.get(CONFIG_MAP, SHOP, name)) is not None}


class Server:
    """A server with one kind of object, its watch, and answers that are under way.

    Attributes:
        events: Watch events that were not delivered yet, in order.
        answers: Answers to writes and reads that were not delivered yet, in any order.
        listing: A list that was made and not delivered yet.
    """

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, Manifest] = {}
        self.events: deque[tuple[str, Manifest]] = deque()
        self.answers: list[Manifest] = []
        self.listing: ObjectList | None = None

    def write(self, name: str, *, ours: bool) -> None:
        self.version += 1
        before = self.objects.get(name)
        uid = before["metadata"]["uid"] if before else f"uid-{self.version}"
        self.objects[name] = config_map(name, self.version, uid, value=str(self.version))
        self.events.append(("MODIFIED" if before else "ADDED", copy.deepcopy(self.objects[name])))
        if ours:
            self.answers.append(copy.deepcopy(self.objects[name]))

    def delete(self, name: str) -> None:
        gone = self.objects.pop(name, None)
        if gone is not None:
            self.version += 1
            gone["metadata"]["resourceVersion"] = str(self.version)
            self.events.append(("DELETED", gone))

    def list(self) -> ObjectList:
        return ObjectList(tuple(copy.deepcopy(each) for each in self.objects.values()), str(self.version))


KINDS = ("write", "ours", "read", "delete", "event", "lose", "answer", "list", "listed", "relist")
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES)), min_size=4, max_size=50)


def deliver(store: Store, event: tuple[str, Manifest]) -> None:
    kind, manifest = event
    if kind == "DELETED":
        store.remove(manifest)
    else:
        store.put(manifest)


def play(steps: list[tuple[str, str]], *, lossy: bool) -> tuple[Server, Store]:
    """Run the steps; check after each that no object went back to an older version, and the index by resource."""
    server, store = Server(), Store()
    newest: dict[str, int] = {}
    for step, name in steps:
        if step == "write":
            server.write(name, ours=False)
        elif step == "ours":
            server.write(name, ours=True)
        elif step == "read":
            if name in server.objects:
                server.answers.append(copy.deepcopy(server.objects[name]))
        elif step == "delete":
            server.delete(name)
        elif step == "event" and server.events:
            deliver(store, server.events.popleft())
        elif step == "lose" and server.events and lossy:
            server.events.popleft()
        elif step == "answer" and server.answers:
            store.put(server.answers.pop(NAMES.index(name) % len(server.answers)))
        elif step == "list" and server.listing is None:
            server.listing = server.list()
        elif step == "listed" and server.listing is not None:
            store.replace(CONFIG_MAP, SHOP, server.listing)
            server.listing = None
        elif step == "relist" and lossy:
            # The watch starts again: events under way are lost, and all objects come again.
            server.events.clear()
            server.events.extend(("ADDED", copy.deepcopy(each)) for each in server.objects.values())
        for each, manifest in held(store).items():
            version = int(manifest["metadata"]["resourceVersion"])
            assert version >= newest.get(each, 0), f"{each} went back"
            newest[each] = version
        belonging = {manifest["metadata"]["name"]: manifest for _, manifest in store.belonging(Key(SHOP, "orders"))}
        assert belonging == held(store)
    return server, store


@given(STEPS)
def test_without_a_loss_the_watch_alone_reaches_its_state(steps: list[tuple[str, str]]) -> None:
    server, store = play(steps, lossy=False)
    while server.answers:
        store.put(server.answers.pop())
    while server.events:
        deliver(store, server.events.popleft())
    assert held(store) == server.objects


@given(STEPS, st.permutations(["events", "answers", "list"]))
def test_after_any_loss_the_next_list_reaches_its_state(steps: list[tuple[str, str]], order: list[str]) -> None:
    server, store = play(steps, lossy=True)
    if server.listing is not None:
        store.replace(CONFIG_MAP, SHOP, server.listing)
    final = server.list()
    for what in order:
        if what == "list":
            store.replace(CONFIG_MAP, SHOP, final)
        elif what == "answers":
            for answer in server.answers:
                store.put(answer)
        else:
            for event in server.events:
                deliver(store, event)
    assert held(store) == server.objects


def test_a_tombstone_refuses_an_answer_from_before_the_deletion() -> None:
    store = Store()
    store.put(config_map("a", 5))
    assert store.remove(config_map("a", 7)) is True
    assert store.put(config_map("a", 6)) is False
    assert held(store) == {}
    assert store.put(config_map("a", 8, uid="another")) is True


def test_a_late_list_drops_no_newer_object() -> None:
    store = Store()
    for name, version in (("a", 5), ("b", 3)):
        store.put(config_map(name, version))
    store.remove(config_map("c", 6))
    store.replace(CONFIG_MAP, SHOP, ObjectList((config_map("b", 3), config_map("c", 2)), "4"))
    assert set(held(store)) == {"a", "b"}


def test_only_unknown_versions_are_reported_as_changes() -> None:
    store = Store()
    assert store.put(config_map("a", 5)) is True
    assert store.put(config_map("a", 5)) is False
    assert store.put(config_map("a", 4)) is False
    news = store.replace(CONFIG_MAP, SHOP, ObjectList((config_map("a", 5), config_map("b", 6, consumer="new")), "6"))
    assert news == {Key(SHOP, "new")}
    assert store.replace(CONFIG_MAP, SHOP, ObjectList((), "9")) == {Key(SHOP, "new"), Key(SHOP, "orders")}


def test_an_object_moves_with_its_label() -> None:
    store = Store()
    store.put(config_map("a", 1, consumer="one"))
    store.put(config_map("a", 2, consumer="two"))
    assert list(store.belonging(Key(SHOP, "one"))) == []
    assert [kind for kind, _ in store.belonging(Key(SHOP, "two"))] == [CONFIG_MAP]


def test_a_cluster_that_was_restored_from_a_backup_is_believed() -> None:
    store = Store()
    store.put(config_map("a", 100))
    store.replace(CONFIG_MAP, SHOP, ObjectList((config_map("a", 100), config_map("b", 90)), "120"))
    store.replace(CONFIG_MAP, SHOP, ObjectList((config_map("a", 40),), "50"))
    assert {name: found["metadata"]["resourceVersion"] for name, found in held(store).items()} == {"a": "40"}
    assert store.put(config_map("a", 51)) is True


def test_versions_that_are_no_numbers_are_believed_as_they_arrive() -> None:
    store = Store()
    for version in ("x2", "x3", "x1"):
        assert store.put(config_map("a", version)) is True
        assert held(store)["a"]["metadata"]["resourceVersion"] == version
    assert store.remove(config_map("a", "x9")) is True


def test_managed_fields_are_not_kept_and_the_original_is_not_touched() -> None:
    store = Store()
    manifest = config_map("a")
    manifest["metadata"]["managedFields"] = [{"manager": "m"}]
    store.put(manifest)
    assert "managedFields" not in held(store)["a"]["metadata"]
    assert "managedFields" in manifest["metadata"]


def test_synced_means_every_kind_in_that_namespace() -> None:
    store = Store()
    for kind in STORED[:-1]:
        store.replace(kind, SHOP, ObjectList((), "1"))
    assert not store.synced(SHOP)
    store.replace(STORED[-1], SHOP, ObjectList((), "1"))
    assert store.synced(SHOP) and not store.synced("other")


def test_one_list_of_all_namespaces_keeps_them_apart() -> None:
    store = Store(clusterwide=True)
    items = tuple(event_consumer(name, {}, place) for name, place in (("a", "one"), ("a", "two")))
    for version, item in enumerate(items, 1):
        item["metadata"] |= {"uid": str(version), "resourceVersion": str(version)}
    store.replace(EVENT_CONSUMER, "", ObjectList(items, "2"))
    assert set(store.consumers("")) == {Key("one", "a"), Key("two", "a")}
    found = store.get(EVENT_CONSUMER, "two", "a")
    assert found is not None and found["metadata"]["uid"] == "2"


# --- writing through -----------------------------------------------------------------------------------------------


class Stale:
    """A fake API and a store to which no watch tells anything."""

    def __init__(self) -> None:
        self.api = FakeKubernetes()
        self.api.put(event_consumer("orders", {}))
        self.store = self.api.mirror()
        self.api.watchers.clear()
        self.through = WriteThrough(self.api, self.store)

    def status(self, **metadata: str) -> Manifest:
        found = self.store.get(EVENT_CONSUMER, SHOP, "orders")
        assert found is not None
        manifest = event_consumer("orders", {}) | {"status": {"replicas": 3}}
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        return manifest | {"metadata": manifest["metadata"] | version | metadata}


async def test_own_writes_are_in_the_store_before_any_watch_event() -> None:
    stale = Stale()
    await stale.through.apply_status(stale.status())
    found = stale.store.get(EVENT_CONSUMER, SHOP, "orders")
    assert found == trimmed(stale.api.peek(EVENT_CONSUMER, SHOP, "orders"))
    created = await stale.through.create(config_map("a"))
    assert created is not None and held(stale.store) == {"a": trimmed(created)}
    merged = await stale.through.merge(
        CONFIG_MAP, SHOP, "a", {"metadata": {"annotations": {"eventconsumer.io/x": "y"}}}
    )
    assert held(stale.store) == {"a": trimmed(merged)}
    await stale.through.delete(CONFIG_MAP, SHOP, "a", merged["metadata"]["uid"])
    assert held(stale.store) == {}
    assert stale.api.reads["get"] == 0


async def test_a_conflict_of_the_status_reads_that_one_object() -> None:
    stale = Stale()
    stale.api.put(event_consumer("orders", {"suspend": True}))
    with pytest.raises(Changed):
        await stale.through.apply_status(stale.status())
    assert stale.store.get(EVENT_CONSUMER, SHOP, "orders") == trimmed(stale.api.peek(EVENT_CONSUMER, SHOP, "orders"))
    await stale.through.apply_status(stale.status())
    assert stale.api.reads == {"get": 1}
    status = stale.status()
    stale.api.remove(EVENT_CONSUMER, SHOP, "orders")
    with pytest.raises(Gone):
        await stale.through.apply_status(status)
    assert stale.store.get(EVENT_CONSUMER, SHOP, "orders") is None


async def test_an_object_that_came_in_place_of_another_is_not_taken_over() -> None:
    stale = Stale()
    first = await stale.through.create(config_map("a"))
    assert first is not None
    stale.api.remove(CONFIG_MAP, SHOP, "a")
    theirs = stale.api.put(config_map("a", theirs="1", uid="another"))
    mine = config_map("a", mine="1", uid=first["metadata"]["uid"])
    with pytest.raises(Changed):
        await stale.through.apply(mine)
    assert stale.api.peek(CONFIG_MAP, SHOP, "a")["metadata"]["annotations"] == {"eventconsumer.io/theirs": "1"}
    assert held(stale.store)["a"]["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]


def test_objects_of_kinds_that_are_not_watched_are_not_kept() -> None:
    assert POD in Store().kinds
    assert Store(kinds=(EVENT_CONSUMER,)).put(config_map("a")) is False


def test_equal_texts_of_many_objects_are_held_once() -> None:
    store = Store()
    data = {"fieldOfAll": "the same text", "list": ["x y z"]}
    found = []
    for name in ("orders-host", "orders-spark"):
        store.put(json.loads(json.dumps(child(name, data=data))))
        found.append((store.get(CONFIG_MAP, SHOP, name) or {})["data"])
    one, other = found
    assert one == data
    assert one["fieldOfAll"] is other["fieldOfAll"] and one["list"][0] is other["list"][0]
    assert [*map(id, one)] == [*map(id, other)]


# --- objects of other clients ---

LARGE = {f"key-{number}": "x" * 200 for number in range(5000)}
CROWD = [{"kind": "Node", "name": "x" * 200, "uid": str(number)} for number in range(5000)]


@pytest.mark.parametrize(
    "manifest",
    [
        config_map("a") | {"data": LARGE},
        config_map("orders-host") | {"data": LARGE},
        child("any-name", data=LARGE),
        child(data=LARGE),
        child(data={"config.json": "x" * 1_000_000}),
        child() | {"kind": "Job", "apiVersion": "batch/v1", "spec": LARGE},
        child() | {"kind": "Pod", "spec": LARGE, "status": LARGE},
        config_map("a") | {"kind": "Pod", "status": {"message": "x" * 100_000}},
    ],
    ids=["foreign", "name of a child", "owner", "child of many keys", "child of a long text", "job", "pod", "no owner"],
)
def test_no_object_of_another_client_takes_much_memory(manifest: Manifest) -> None:
    metadata = manifest["metadata"]
    metadata |= {"managedFields": [LARGE], "finalizers": list(LARGE)}
    metadata["labels"] |= LARGE
    metadata["annotations"] = LARGE | {"eventconsumer.io/executor": "x" * 100_000}  # as long as a driver's may be
    metadata["ownerReferences"] = [*metadata.get("ownerReferences", []), *CROWD]
    store = Store()
    store.put(manifest)
    ((kind, found),) = store.belonging(Key(SHOP, "orders"))
    assert len(pickle.dumps(found)) < 1000
    assert controller_uid(found) == controller_uid(manifest)  # enough to leave it alone
    assert store.get(kind, SHOP, metadata["name"]) == found


def test_a_spec_is_held_once_although_each_list_has_it_again() -> None:
    listed = [event_consumer("orders", {"suspend": True, "pods": {"labels": {"a": "b"}}}) for _ in range(2)]
    first, second = (trimmed(each) for each in listed)
    assert first["spec"] is second["spec"]
    assert spec_of(first) == listed[0]["spec"]


async def test_a_list_of_unchanged_objects_is_of_the_held_ones() -> None:
    api = FakeKubernetes()
    store = api.mirror(SHOP)
    api.put(child("orders-host", data={"a": "x" * 1000}))
    for name in ("orders", "payments"):
        api.put(event_consumer(name, {}))
    for kind, names in ((EVENT_CONSUMER, ("orders", "payments")), (CONFIG_MAP, ("orders-host",))):
        listing = await api.list(kind, SHOP, keep=store.kept)
        assert [id(item) for item in listing.items] == [id(store.get(kind, SHOP, name)) for name in names]
    late = api.mirror(SHOP)
    api.watchers.pop()
    api.put(event_consumer("orders", {"suspend": True}))
    changed, unchanged = (await api.list(EVENT_CONSUMER, SHOP, keep=late.kept)).items
    assert changed == store.get(EVENT_CONSUMER, SHOP, "orders") != late.get(EVENT_CONSUMER, SHOP, "orders")
    assert unchanged is late.get(EVENT_CONSUMER, SHOP, "payments")


def test_a_spec_of_any_size_takes_little_memory_and_its_resource_says_so() -> None:
    store = Store()
    spec = {"spark": {"application": {"arguments": ["x" * 4096] * 100}}}
    store.put(event_consumer("orders", spec) | {"status": LARGE})
    found = store.get(EVENT_CONSUMER, SHOP, "orders")
    assert found is not None and len(pickle.dumps(found)) < 1000
    with pytest.raises(SpecError, match=r"spec: the resource has 1\d{6} bytes, more than 131072: shorten its lists"):
        parse_spec(found["spec"])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, "", "a", "x" * 200]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=2, max_size=6))
def test_equal_parts_of_objects_are_one_object_and_no_value_changes(contents: list[Any]) -> None:
    store = Store()
    for version, content in enumerate(contents, start=1):
        found = []
        for consumer in ("orders", "payments"):
            manifest = child(f"{consumer}-host", data=content)
            metadata = {"labels": {labels.LABEL_CONSUMER: consumer}, "resourceVersion": str(version)}
            store.put(manifest | {"metadata": manifest["metadata"] | metadata})
            held_now = store.get(CONFIG_MAP, SHOP, f"{consumer}-host")
            assert held_now is not None
            found.append(held_now["data"])
        assert json.dumps(found[0]) == json.dumps(content)
        assert found[1] is found[0]
