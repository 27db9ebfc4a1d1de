"""A handler: books orders in a database, each exactly once, and rejects other events.

An event is `{"order": "A-17", "cents": 1250}`. SQLite represents your database. Events may be received again after a
crash, so a booking is stored under its partition and sequence number: a repeated event has no effect.
"""

import hmac
import json
import os
import sqlite3
from pathlib import Path

from eventconsumer_host.handler import (
    Batch,
    CloseReason,
    Event,
    EventProcessor,
    PartitionContext,
    RejectEvents,
    TryAgain,
)

DATABASE = os.environ.get("APP_DATABASE", "/tmp/shop.sqlite")  # noqa: S108 - a folder that the host may write to
KEY_FILE = os.environ.get("APP_KEY_FILE")
"""A file with a key, if the database must not show references: they are stored as their HMAC with this key."""
TABLE = """
    CREATE TABLE IF NOT EXISTS bookings (
        partition TEXT, number INTEGER, reference TEXT, cents INTEGER, PRIMARY KEY (partition, number)
    )
"""


class Shop(EventProcessor):
    """Books orders. The methods are plain: each instance has its own thread, which may block."""

    _database: sqlite3.Connection

    def open(self, context: PartitionContext) -> None:
        """Connect. After an error the host tries again with a new instance."""
        self._database = sqlite3.connect(DATABASE, timeout=5)
        with self._database:
            self._database.execute(TABLE)
        context.log.info("shop open", first=context.next_sequence_number)

    def process_events(self, context: PartitionContext, batch: Batch) -> None:
        """Book a batch in one transaction: all of it, or nothing."""
        rows, bad = [], []
        key = Path(KEY_FILE).read_bytes() if KEY_FILE else None  # each time: a changed Secret needs no restart
        for event in batch:
            try:
                rows.append((context.partition_id, event.sequence_number, *_order(event, key)))
            except (ValueError, KeyError, TypeError):
                bad.append(event.sequence_number)
        if bad:
            raise RejectEvents(bad, "not an order: it needs the fields order and cents")
        try:
            with self._database:
                self._database.executemany("INSERT OR IGNORE INTO bookings VALUES (?, ?, ?, ?)", rows)
        except sqlite3.OperationalError as error:  # locked or full: not caused by an order
            raise TryAgain(str(error)) from error

    def close(self, context: PartitionContext, reason: CloseReason) -> None:
        """Close the connection."""
        self._database.close()
        context.log.info("shop closed", reason=str(reason), position=context.position)


def _order(event: Event, key: bytes | None) -> tuple[str, int]:
    order = json.loads(event.body)
    reference = str(order["order"])
    stored = hmac.digest(key, reference.encode(), "sha256").hex() if key else reference
    return stored, int(order["cents"])
