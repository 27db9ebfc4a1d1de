"""Secrets that are missing, wrong or changed while a host runs: it names each, heals, and shows no key.

Keys of the hub and of storage are planted, and are in nothing that hosts write: log, HTTP, blobs, audit.
"""

import base64
import secrets
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.azurite import KEY as STORAGE_KEY
from tests.support.servers import KEY, KEY_NAME
from tests.support.waiting import HANG_SECONDS, wait_until


def planted() -> str:
    """A key as Azure makes them."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def forms(secret: str) -> Iterator[bytes]:
    """A key as it may appear: as it is, in a URL, in JSON, without its padding, decoded, or encoded once more."""
    yield secret.encode()
    yield secret.rstrip("=").encode()
    yield urllib.parse.quote(secret, safe="").encode()
    yield urllib.parse.quote_plus(secret).encode()
    yield secret.replace("/", "\\/").encode()
    yield base64.b64encode(secret.encode()).rstrip(b"=")
    yield base64.b64decode(secret)
    yield base64.b64decode(secret).hex().encode()


def answers(host: HostProcess) -> bytes:
    """Everything a host says over HTTP."""
    return b"\n".join(host.get(path) for path in ("/status", "/metrics"))


def stored(orders: Consumer) -> bytes:
    """Every byte in the containers: names, metadata, properties, content."""
    found = bytearray()
    for name in (orders.leases, orders.drained):
        with orders.container(name) as container:
            for blob in container.list_blobs(include=["metadata", "uncommittedblobs", "snapshots"]):
                found += repr(dict(blob)).encode()
                if blob.size:
                    found += container.download_blob(blob.name).readall()
    return bytes(found)


def caught_up(orders: Consumer, host: HostProcess) -> bool:
    done = {report.id: report.next_sequence_number for report in host.report().partitions}
    return done == {partition: head + 1 for partition, head in orders.heads().items()}


def audit(orders: Consumer, host: HostProcess) -> bytes:
    """What the auditor prints, of what is there and of what it cannot reach."""
    command = [sys.executable, "-m", "eventconsumer_tools", "audit", "--hub", "--config"]
    config = str(host.log_file.with_suffix(".json"))
    result = subprocess.run([*command, config], capture_output=True, timeout=HANG_SECONDS, check=False)
    assert result.stdout or result.stderr
    return result.stdout + result.stderr


def test_a_host_takes_each_change_of_a_secret_without_a_restart_and_shows_no_key(consumer: MakeConsumer) -> None:
    hub_key, next_key, wrong_hub_key, wrong_storage_key = planted(), planted(), planted(), planted()
    orders = consumer(partitions=2)
    admin = orders.emulator.admin
    own, rights = (KEY_NAME, KEY, ["Listen", "Send", "Manage"]), ["Listen"]
    admin.set_policies(own, ("drain", hub_key, rights), ("next", next_key, rights))
    good_hub = orders.emulator.connection_string(orders.hub, "next", next_key)
    good_storage = orders.storage_secret.read_text()
    said = bytearray()

    orders.hub_secret.unlink()
    host = orders.host("orders-host-0", environment={"AZURE_LOG_LEVEL": "debug", "PYTHONASYNCIODEBUG": "1"})
    problem = host.problem("SecretKeyMissing")
    assert problem.field == "spec.eventHub.authentication.connectionStringSecretRef"
    assert problem.message.startswith(
        "Secret eventHub-secret, or its key connectionString, does not exist: create it with kubectl create secret "
        "generic eventHub-secret -n shop --from-literal=connectionString="
    )
    assert host.report().state == "Blocked"
    orders.hub_secret.write_text(orders.emulator.connection_string(orders.hub, "drain", hub_key))
    orders.publish(200)
    wait_until(lambda: caught_up(orders, host), f"caught up: {host.log[-3000:]}")
    said += answers(host) + audit(orders, host)

    # The key is rotated: a new one is in the Secret, and the old one is refused.
    orders.hub_secret.write_text(good_hub)
    wait_until(lambda: "a credential changed; registering again" in host.log, "the change is seen")
    admin.set_policies(own, ("next", next_key, rights))
    orders.publish(200, start=200)
    wait_until(lambda: caught_up(orders, host), f"caught up with the new key: {host.log[-3000:]}")

    # Every way in which a Secret can be wrong, each until the host says so.
    nowhere = f"BlobEndpoint=http://127.0.0.1:9/{wrong_storage_key};AccountName=a;AccountKey={wrong_storage_key}"
    for secret_file, text, reason, part, good in (
        (orders.hub_secret, good_hub.replace(next_key, wrong_hub_key), "EventHubUnauthorized", "", good_hub),
        (orders.hub_secret, f"Key {wrong_hub_key[:20]}", "ConnectionStringInvalid", "part 1 is not of the", good_hub),
        (orders.hub_secret, f"SharedAccessKey={wrong_hub_key}", "ConnectionStringInvalid", "no part Endp", good_hub),
        (orders.hub_secret, good_hub.replace(f":{orders.emulator.port}", ":9"), "EventHubUnreachable", "", good_hub),
        (
            orders.storage_secret,
            good_storage.replace(STORAGE_KEY, wrong_storage_key),
            "StorageUnauthorized",
            "",
            good_storage,
        ),
        (orders.storage_secret, wrong_storage_key, "ConnectionStringInvalid", "", good_storage),
        (orders.storage_secret, nowhere, "StorageUnreachable", "", good_storage),
        (orders.storage_secret, None, "SecretKeyMissing", "or its key connectionString, does not exist", good_storage),
    ):
        if text is None:
            secret_file.unlink()
        else:
            secret_file.write_text(text)
        admin.expire_tokens()
        admin.drop_connections()
        problem = host.problem(reason)
        assert problem.field.endswith(".authentication.connectionStringSecretRef") and part in problem.message
        assert host.get("/healthz") == b"ok\n"
        said += answers(host)
        secret_file.write_text(good)
        wait_until(lambda: not host.report().problems, f"{reason} heals: {host.log[-3000:]}")
    orders.publish(200, start=400)
    wait_until(lambda: caught_up(orders, host), f"it goes on: {host.log[-3000:]}")
    said += audit(orders, host)
    assert host.terminate() == 0

    said += host.log_file.read_bytes() + host.log_file.with_suffix(".json").read_bytes() + stored(orders)
    assert b"orders-host-0" in said and b'"message"' in said and len(said) > 10_000
    for name, secret in (
        ("the hub's key", hub_key),
        ("the hub's new key", next_key),
        ("a wrong key of the hub", wrong_hub_key),
        ("the storage key", STORAGE_KEY),
        ("a wrong storage key", wrong_storage_key),
    ):
        for form in forms(secret):
            where = said.find(form)
            assert where < 0, f"{name} is in: …{bytes(said[max(0, where - 200) : where])!r}"
