"""Every request to storage is told to the observer, once: what is counted is what is paid for."""

from collections import Counter
from typing import Any

import pytest
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.errors import Conflict, NotFound

TOKENS = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


async def test_every_operation_is_counted_as_often_as_it_is_sent(azurite: Any) -> None:
    sent: Counter[str] = Counter()
    service = BlobServiceClient.from_connection_string(
        azurite.connection_string,
        **client_options(),
        raw_request_hook=lambda request: sent.update([request.http_request.method]),
    )
    observed: Counter[str] = Counter()
    store = AzureBlobStore(service, azurite.container(), lambda operation, _: observed.update([operation]))

    def agree(operation: str) -> None:
        assert observed.total() == sent.total(), (operation, observed, sent)

    await store.ensure_container()
    agree("ensure_container")
    assert await store.head("absent") is None
    agree("head of nothing")
    etag = await store.put("a", b"data", if_absent=True)
    agree("put")
    with pytest.raises(Conflict):
        await store.put("a", b"data", if_absent=True)
    agree("put of what is there")
    assert await store.read("a", 100) is not None
    agree("read")
    etag = await store.set_metadata("a", {"key": "value"}, if_match=etag)
    agree("set_metadata")
    for number in range(5):
        await store.put(f"many/{number}", b"")
    assert len(await store.list("many/")) == 5
    agree("list")
    assert len(await store.list("many/", limit=2)) == 2
    agree("list of the first")
    await store.put_block("blocks", "00", b"block")
    await store.put_block_list("blocks", ["00"], metadata={}, if_absent=True)
    agree("blocks")
    await store.acquire_lease("a", TOKENS[0], 15)
    await store.renew_lease("a", TOKENS[0])
    await store.release_lease("a", TOKENS[0])
    agree("leases")
    with pytest.raises(NotFound):
        await store.renew_lease("absent", TOKENS[0])
    agree("a lease of nothing")
    await store.remove("blocks", if_match=(await store.put("blocks", b"again")))
    agree("remove")
    assert set(observed) == {
        "get_container",
        "create_container",
        "head",
        "put",
        "read",
        "set_metadata",
        "list",
        "put_block",
        "put_block_list",
        "acquire_lease",
        "renew_lease",
        "release_lease",
        "remove",
    }
    await store.close()
