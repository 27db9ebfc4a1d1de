"""What hosts are told of their fleet: who is ready, who has ended, and that it is signed and sent."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)
from hypothesis import given
from structlog.testing import capture_logs

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.labels import COMPONENT_HOST
from eventconsumer_api.wire.fleet import FLEET_MAX_BYTES, FleetMessage
from eventconsumer_api.wire.host_report import REPORT_MAX_ITEMS, HostReport, HostState
from eventconsumer_api.wire.identity import owner_id
from eventconsumer_operator.fleet.host_liveness import (
    NAMED_MAX,
    NAMED_SECONDS,
    REMEMBERED,
    Liveness,
    confirm,
    look,
    message,
)
from eventconsumer_operator.fleet.key import FleetKey, FleetKeyError
from eventconsumer_operator.fleet.messages import Fleets
from eventconsumer_operator.kube.manifest import CONFIG_MAP, POD
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.names import child_labels
from eventconsumer_operator.resource.observed import Observed
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.unit.operator.worlds import KEY, NOW, SETTINGS, fleet, observed, pod, report, stateful_set

RUNNING = HostReport(owner="", state=HostState.RUNNING)
HOSTS = 12  # replicas of the StatefulSet


def uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def owner(ordinal: int, number: int | None = None) -> str:
    """The id under which a pod holds leases, as hosts make it."""
    return owner_id("shop/orders", f"orders-host-{ordinal}", uid(ordinal if number is None else number))


def host_pod(ordinal: int, number: int | None = None, *, ready: bool = True, **status: Any) -> Manifest:
    """A pod of the StatefulSet."""
    found = pod(f"orders-host-{ordinal}", phase="Running", podIP=f"10.0.0.{ordinal}")
    found["metadata"] |= {
        "uid": uid(ordinal if number is None else number),
        "labels": child_labels(KEY, COMPONENT_HOST),
    }
    conditions = [{"type": "Ready", "status": str(ready)}]
    return found | {"status": found["status"] | {"conditions": conditions} | status}


def deleted(pod: Manifest) -> Manifest:
    return pod | {"metadata": pod["metadata"] | {"deletionTimestamp": "2026-11-21T12:00:00Z"}}


def world(
    *pods: Manifest, owners: Mapping[str, str] | None = None, seconds: float = 0, **reports: HostReport
) -> Observed:
    """Pods that all answer, unless said otherwise; `owners` is what the leading host lists."""
    answers = {each["metadata"]["name"]: RUNNING for each in pods} | {
        name.replace("_", "-"): answer for name, answer in reports.items()
    }
    if owners is not None and pods:
        first = pods[0]["metadata"]["name"]
        answers[first] = answers[first].model_copy(update={"fleet": fleet().model_copy(update={"owners": owners})})
    hosts = stateful_set(HOSTS, HOSTS)
    return observed(hosts=hosts, pods=pods, reports=answers, now=NOW + timedelta(seconds=seconds))


def looks(*worlds: Observed) -> tuple[Liveness, frozenset[str]]:
    """The memory after some looks, and whom the last one suspects."""
    liveness, suspects = Liveness(), frozenset[str]()
    for each in worlds:
        liveness, suspects = look(liveness, each)
    return liveness, suspects


# --- who has ended ---


def test_a_pod_that_is_gone_is_suspected_at_once_and_believed_after_a_direct_read() -> None:
    both, one = world(host_pod(0), host_pod(1)), world(host_pod(0))
    assert looks(both)[1] == frozenset()
    liveness, suspects = looks(both, one)
    assert suspects == {owner(1)}
    assert not liveness.gone
    assert dict(confirm(liveness, suspects, "shop/orders", [host_pod(0)], NOW).gone) == {owner(1): NOW}


def test_a_pod_that_exists_has_not_ended() -> None:
    both, one = world(host_pod(0), host_pod(1)), world(host_pod(0))
    liveness, suspects = looks(both, one, one)
    liveness = confirm(liveness, suspects, "shop/orders", [host_pod(0), host_pod(1)], NOW)
    assert not liveness.gone  # a direct read finds it
    assert look(liveness, both)[1] == frozenset()
    assert looks(both, one, both)[1] == frozenset()  # the watch finds it again
    going = world(host_pod(0), deleted(host_pod(1)))
    liveness, suspects = looks(both, going, going)  # it is being deleted
    assert not suspects and not liveness.gone
    before, after = world(host_pod(0, 7)), world(host_pod(0, 8))
    assert looks(before, after, after)[1] == {owner(0, 7)}  # a pod of the same name is another owner


def test_an_unknown_owner_of_a_lease_is_suspected_and_a_direct_read_finds_it_where_it_is_newer_than_the_list() -> None:
    told = world(host_pod(0), owners={"1": owner(1, 99)})
    liveness, suspects = looks(told)
    assert suspects == {owner(1, 99)}
    assert not confirm(liveness, suspects, "shop/orders", [host_pod(0), host_pod(1, 99)], NOW).gone
    assert looks(told, told)[1] == frozenset()  # a report is no reason for a direct read at each look
    later = world(host_pod(0), owners={"1": owner(1, 99)}, seconds=NAMED_SECONDS.total_seconds())
    assert looks(told, later)[1] == {owner(1, 99)}
    assert looks(told, world(host_pod(0), host_pod(1, 99)))[1] == frozenset()


@pytest.mark.parametrize(
    "name",
    [
        "11111111-1111-1111-1111-111111111111",  # an SDK's processor
        f"orders-host-0.{uid(1)}",  # of another program
        f"shop/payments/payments-host-0.{uid(1)}",
        f"shop/payments/orders-host-0.{uid(1)}",
        f"market/orders/orders-host-0.{uid(1)}",
        f"shop/orders/orders-host-x.{uid(1)}",
        "shop/orders/orders-host-0.not-a-uid",
        f"shop/orders/orders-host-0.{uid(1)}.more",
        "laptop",
        owner(HOSTS),  # a host that does not exist
        f"shop/orders/orders-host-01.{uid(1)}",
        f"shop/orders/orders-host-{'9' * 200}.{uid(1)}",
    ],
)
def test_owners_that_were_never_pods_of_these_hosts_are_never_suspected(name: str) -> None:
    told = world(host_pod(0), owners={"1": name})
    assert looks(told, told, told)[1] == frozenset()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_whose_containers_have_all_terminated_for_good_has_ended(phase: str) -> None:
    over = host_pod(1, phase=phase, containerStatuses=[{"state": {"terminated": {"exitCode": 1}}}])
    assert set(looks(world(host_pod(0), over))[0].gone) == {owner(1)}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed"},  # nothing is said about containers
        {"phase": "Failed", "containerStatuses": [{"state": {"running": {}}}]},
        {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]},  # it restarts
        {"phase": "Unknown"},
    ],
)
def test_a_pod_that_may_still_run_has_not_ended(status: dict[str, Any]) -> None:
    each = world(host_pod(0), host_pod(1, **status))
    liveness, suspects = looks(each, each, each)
    assert not liveness.gone and not suspects


def test_an_ended_owner_is_remembered_while_leases_may_name_it_and_then_forgotten() -> None:
    liveness = Liveness(gone={owner(1): NOW})
    later = REMEMBERED.total_seconds()
    liveness, _ = look(liveness, world(host_pod(0), owners={"1": owner(1)}, seconds=later - 1))
    assert set(liveness.gone) == {owner(1)}
    liveness, suspects = look(liveness, world(host_pod(0), seconds=2 * later - 2))
    assert set(liveness.gone) == {owner(1)} and not suspects
    assert not look(liveness, world(host_pod(0), seconds=2 * later))[0].gone


@given(st.lists(st.sets(st.integers(0, 4)), min_size=1, max_size=12), st.integers(0, 4))
def test_a_pod_that_exists_is_never_reported_as_ended(history: list[set[int]], last: int) -> None:
    liveness = Liveness()
    for present in [*history, {last}]:
        pods = [host_pod(number) for number in sorted(present)]
        liveness, suspects = look(liveness, world(*pods, owners={"0": owner(last)}))
        liveness = confirm(liveness, suspects, "shop/orders", [host_pod(number) for number in {*present, last}], NOW)
    assert owner(last) not in liveness.gone


# --- who is ready ---


def test_a_message_names_ready_hosts_that_stay_and_can_read() -> None:
    blocked = RUNNING.model_copy(update={"state": HostState.BLOCKED})
    pods = (host_pod(0), host_pod(1, ready=False), host_pod(2), deleted(host_pod(3)), host_pod(4), host_pod(9))
    each = world(*pods, orders_host_2=blocked)
    each = replace(each, reports={name: found for name, found in each.reports.items() if name != "orders-host-4"})
    told = message(each, Liveness(gone={owner(7): NOW}), 6, 42)
    assert told == FleetMessage(
        resource="shop/orders", generation=42, time=NOW, hosts=6, ready=("orders-host-0",), gone=(owner(7),)
    )
    # The number of partitions is told as hosts know it.
    assert message(world(host_pod(0), orders_host_0=report(8)), Liveness(), 1, 1).partitions == 8
    assert message(world(host_pod(0)), Liveness(), 1, 1).partitions is None


def test_a_message_names_hosts_that_do_not_hear_the_hub_while_others_do() -> None:
    def told(*silences: float | None) -> FleetMessage:
        heard = {
            f"orders_host_{ordinal}": RUNNING.model_copy(update={"hub_silent_seconds": seconds})
            for ordinal, seconds in enumerate(silences)
        }
        return message(world(*map(host_pod, range(len(silences))), **heard), Liveness(), len(silences), 1)

    one = told(1, 60, None)  # the last one is of a version that does not tell
    assert one.deaf == ("orders-host-1",)
    assert "orders-host-1" in one.ready  # it stays, and takes partitions when it hears the hub again
    assert told(60, 61).deaf == told(None, None).deaf == ()


# --- the key ---


def test_the_public_key_is_in_the_config_map_and_restarts_no_pod() -> None:
    without, with_key = make_plan(observed(), SETTINGS), make_plan(observed(), SETTINGS, "PEM")
    (config_map,) = [each for each in with_key.applied if each["kind"] == CONFIG_MAP.name]
    assert config_map["data"]["fleet.pem"] == "PEM"
    differing = [one["kind"] for one, other in zip(without.applied, with_key.applied, strict=True) if one != other]
    assert differing == [CONFIG_MAP.name]


def private_pem(key: Any) -> bytes:
    found: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return found


def test_a_key_file_is_the_key(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    private = Ed25519PrivateKey.generate()
    file.write_bytes(private_pem(private))
    key = FleetKey.load(file)
    private.public_key().verify(base64.b64decode(key.sign(b"body")), b"body")
    assert FleetKey.load(file).public_pem == key.public_pem
    assert FleetKey.load(None).public_pem != FleetKey.load(None).public_pem


def test_a_wrong_key_file_is_named_and_its_content_is_not(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    with pytest.raises(FleetKeyError, match=r"key\.pem.*openssl genpkey"):
        FleetKey.load(file)
    for content in (b"SECRET", private_pem(ec.generate_private_key(ec.SECP256R1()))):
        file.write_bytes(content)
        with pytest.raises(FleetKeyError, match=r"key\.pem.*openssl genpkey") as error:
            FleetKey.load(file)
        assert "SECRET" not in str(error.value)
        assert error.value.__cause__ is None


# --- telling ---


class Heard:
    """Takes messages, and checks their signature."""

    def __init__(self) -> None:
        self.public_pem = ""
        self.messages: list[tuple[set[str], FleetMessage]] = []
        self.bytes: list[int] = []

    async def send(
        self, addresses: Mapping[str, str], body: bytes, signature: str, *, with_reports: bool = False
    ) -> dict[str, HostReport]:
        key = load_pem_public_key(self.public_pem.encode())
        assert isinstance(key, Ed25519PublicKey)
        key.verify(base64.b64decode(signature), body)
        with pytest.raises(InvalidSignature):
            key.verify(base64.b64decode(signature), body + b" ")
        self.bytes.append(len(body))
        self.messages.append((set(addresses), FleetMessage.model_validate_json(body)))
        return {name: HostReport(owner=name, state=HostState.RUNNING) for name in addresses} if with_reports else {}


def operator(api: FakeKubernetes, clock: list[float]) -> tuple[Fleets, Heard]:
    heard = Heard()
    found = Fleets(api, heard, FleetKey.load(None), lambda: clock[0])
    heard.public_pem = found.public_pem
    return found, heard


async def test_hosts_that_answer_get_messages_of_rising_generations() -> None:
    clock = [1000.0]
    fleets, heard = operator(FakeKubernetes(), clock)
    each = world(host_pod(0), host_pod(1))
    for now in (1000.0, 1000.0, 999.0, 1001.0):
        clock[0] = now
        await fleets.send(each, 2)
    assert [told.generation for _, told in heard.messages] == [1_000_000, 1_000_001, 1_000_002, 1_001_000]
    assert {frozenset(names) for names, _ in heard.messages} == {frozenset(["orders-host-0", "orders-host-1"])}
    await fleets.send(replace(each, reports={}), 2)
    assert len(heard.messages) == 4


async def test_the_last_message_is_repeated_to_hosts_that_answered_and_returns_their_reports() -> None:
    clock = [1000.0]
    fleets, heard = operator(FakeKubernetes(), clock)
    each = world(host_pod(0), host_pod(1))
    assert await fleets.repeat(each) == {}
    first = next(iter(each.reports.items()))
    await fleets.send(replace(each, reports=dict([first])), 2)
    later = replace(each, now=each.now + timedelta(seconds=15), reports={})
    clock[0] = 1015.0
    assert (await fleets.repeat(later)).keys() == {first[0]}
    (names, told), (again, repeated) = heard.messages
    assert names == again == {first[0]}
    assert repeated == told.model_copy(update={"generation": 1_015_000, "time": later.now})
    fleets.forget(KEY)
    assert await fleets.repeat(later) == {}


async def test_a_host_is_reported_as_ended_only_when_the_api_server_does_not_know_it() -> None:
    api = FakeKubernetes()
    fleets, heard = operator(api, [1.0])
    api.put(host_pod(0))
    api.put(host_pod(1))
    for each in (world(host_pod(0), host_pod(1)), *[world(host_pod(0))] * 4):  # what was watched lost sample of it
        await fleets.send(each, 2)
    assert all(not told.gone for _, told in heard.messages)
    api.remove(POD, "shop", "orders-host-1")
    for _ in range(3):
        await fleets.send(world(host_pod(0)), 2)
    assert heard.messages[-1][1].gone == (owner(1),)


async def test_invented_owners_cost_few_direct_reads_few_log_entries_and_a_short_message() -> None:
    api = FakeKubernetes()
    fleets, heard = operator(api, [1.0])
    for ordinal in range(2):
        api.put(host_pod(ordinal))
    seconds, step = int(REMEMBERED.total_seconds()), 3
    with capture_logs() as entries:
        await fleets.send(world(host_pod(0), host_pod(1)), 2)
        api.remove(POD, "shop", "orders-host-1")
        for now in range(0, seconds, step):
            invented = {
                str(number): owner(number % HOSTS, 1000 + now * REPORT_MAX_ITEMS + number)
                for number in range(REPORT_MAX_ITEMS)
            }
            await fleets.send(world(host_pod(0), owners=invented, seconds=now), 2)
    reads = seconds // NAMED_SECONDS.total_seconds()
    assert len(entries) <= reads + 1
    assert all(len(str(entry)) < 2000 for entry in entries)
    gone = heard.messages[-1][1].gone
    assert owner(1) in gone  # it was observed, so it comes before the invented ones
    assert len(gone) <= NAMED_MAX + 1
    assert max(heard.bytes) <= FLEET_MAX_BYTES


async def test_a_message_of_the_longest_names_is_within_the_limit_of_hosts() -> None:
    name = f"{'n' * 63}/{'c' * 47}/{'c' * 47}-host-"
    everyone = {f"{name}{number:04}.{uid(number)}": NOW + timedelta(seconds=number) for number in range(1024)}
    pods = [f"{'c' * 47}-host-{number:04}" for number in range(1024)]
    told = message(world(host_pod(0)), Liveness(gone=everyone, named=frozenset(list(everyone)[512:])), 1, 1)
    full = told.model_copy(update={"ready": tuple(pods)})
    assert len(full.model_dump_json(by_alias=True)) <= FLEET_MAX_BYTES
    assert set(list(everyone)[:512]) < set(told.gone)  # observed ones first, then the newest
    assert list(everyone)[-1] in told.gone and list(everyone)[512] not in told.gone


async def test_a_resource_of_the_same_name_starts_without_a_memory() -> None:
    fleets, heard = operator(FakeKubernetes(), [1.0])
    await fleets.send(world(host_pod(0), host_pod(1)), 2)
    another = world(host_pod(0))
    another = replace(another, consumer=replace(another.consumer, uid="another"))
    for _ in range(3):
        await fleets.send(another, 2)
    assert heard.messages[-1][1].gone == ()
    fleets.forget(KEY)
