"""The pause that storage asks for, and a commit that keeps it."""

import asyncio
from datetime import UTC, datetime
from random import Random

import pytest
from azure.core.exceptions import HttpResponseError

from eventconsumer_host.sink.commit import RETRY_AFTER_MOST, commit
from eventconsumer_host.sink.slots import Chain, Draft
from eventconsumer_storage.causes import CAUSES
from eventconsumer_storage.errors import (
    Conflict,
    NotFound,
    Refused,
    StorageError,
    Unauthorized,
    Unavailable,
    storage_error,
)
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual

DRAFT = Draft(0, 0, 9, 10, 1, "host", "nonce", "9", datetime(2026, 1, 1, tzinfo=UTC))


class Answer:
    """As much of a response as the library's error looks at."""

    reason = "Server Busy"
    request = None

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status_code = status
        self.headers = headers

    def text(self) -> str:
        """No body."""
        return ""


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3),
        ({"Retry-After": "-1"}, 0),
        ({"Retry-After": "nan"}, 0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0),
        ({}, 0),
    ],
)
def test_the_pause_that_storage_asks_for(headers: dict[str, str], seconds: float) -> None:
    error = storage_error("put", HttpResponseError("busy", response=Answer(503, headers)))
    assert isinstance(error, Unavailable)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AuthorizationFailure", Unauthorized),
        (404, "ContainerNotFound", NotFound),
        (409, "BlobAlreadyExists", Conflict),
        (409, "BlobImmutableDueToPolicy", Refused),
        (409, "ContainerBeingDeleted", Unavailable),
        (409, "LeaseAlreadyPresent", Conflict),
        (409, "LeaseIdMismatchWithLeaseOperation", Conflict),
        (409, "PendingCopyOperation", Unavailable),
        (412, "ConditionNotMet", Conflict),
        (412, "LeaseLost", Conflict),
        (400, "InvalidHeaderValue", Refused),
    ],
)
def test_a_code_decides_what_a_caller_does(status: int, code: str, kind: type[StorageError]) -> None:
    error = HttpResponseError("no", response=Answer(status, {}))
    error.error_code = code  # type: ignore[attr-defined]  # as the library's `process_storage_error` sets it
    found = storage_error("put", error)
    assert (type(found), found.status, found.code) == (kind, status, code)
    assert code in CAUSES


@pytest.mark.parametrize(("asked", "least"), [(3.0, 3.0), (0.0, 0.1), (1e9, RETRY_AFTER_MOST)])
def test_a_commit_waits_as_long_as_storage_asks(asked: float, least: float) -> None:
    @virtual
    async def run() -> None:
        clock = asyncio.get_running_loop().time
        blobs = FakeBlobStore(clock)
        blobs.faults.append(Fault("put", error=lambda: Unavailable("busy", 503, "ServerBusy", asked)))
        blobs.faults.append(Fault("head", error=lambda: Unavailable("busy", 503, "ServerBusy")))
        failures: list[StorageError] = []
        begun = clock()
        chain = Chain(blobs, "shop", "inc", "0")
        await commit(chain, DRAFT, b"data", check=lambda: None, failed=failures.append, rng=Random(1))
        assert len(failures) == 1
        assert least <= clock() - begun <= least + 1

    run()
