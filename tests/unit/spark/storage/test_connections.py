"""Connections of a driver to storage: parallel checks of files keep and use them again."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from eventconsumer_api.wire.batch import BatchFile, BatchManifest, Totals
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_spark.input.manifest import check_files
from eventconsumer_spark.storage.store import CHECKS, SinkContainer
from eventconsumer_storage.account import StorageAccount
from tests.support.httpservers import Quiet, serving

ROUNDS = 3


@contextmanager
def account() -> Iterator[tuple[StorageAccount, set[int]]]:
    """An account that answers when `CHECKS` requests wait, and the ports from which requests came."""
    ports: set[int] = set()
    together = threading.Barrier(CHECKS, timeout=30)

    class Handler(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            ports.add(self.client_address[1])
            together.wait()
            self.send_response(200)
            for name, value in {"Content-Length": "1", "ETag": '"1"', "x-ms-blob-type": "BlockBlob"}.items():
                self.send_header(name, value)
            self.send_header("Last-Modified", self.date_time_string())
            self.end_headers()

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        endpoint = f"http://127.0.0.1:{server.server_port}/devstoreaccount1"
        yield StorageAccount(name="devstoreaccount1", endpoint=endpoint, key="a2V5"), ports


def test_parallel_checks_use_as_many_connections_as_checks_and_use_them_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = [
        BatchFile(path=f"p/{number}", partition="0", first=number, last=number, count=1, size=1, etag="1")
        for number in range(ROUNDS * CHECKS)
    ]
    now = datetime.now(UTC)
    manifest = BatchManifest(
        number=1,
        chain="c",
        resource=ResourceRef(namespace="shop", name="orders", uid="u"),
        segment_id="i",
        created_at=now,
        reason="Files",
        files=files,
        ranges={},
        next={},
        totals=Totals(),
    )
    with account() as (found, ports), caplog.at_level(logging.DEBUG), SinkContainer(found, "drained") as store:
        check_files(store, manifest)
    assert not [record.getMessage() for record in caplog.records if "pool is full" in record.getMessage()]
    assert len(ports) == CHECKS
