"""A handler that transforms events before they are written: it masks e-mail addresses and drops heartbeats.

An event is a JSON object. A heartbeat has the property `kind` with the value `heartbeat`.
"""

import json
from typing import Any

import pyarrow as pa

from eventconsumer_host.handler import Batch, EventProcessor, PartitionContext, RejectEvents, Rows


class Masking(EventProcessor):
    """Masks the field `email`. The method is `async def` because it waits for nothing."""

    async def process_events(self, context: PartitionContext, batch: Batch) -> Rows:
        """The rows for the file, one for each event that is kept. All other columns stay as they are."""
        numbers, bodies, bad = [], [], []
        for event in batch:
            if event.properties.get("kind") == "heartbeat":
                continue
            try:
                bodies.append(json.dumps(_masked(json.loads(event.body or b""))))
                numbers.append(event.sequence_number)
            except ValueError:
                bad.append(event.sequence_number)
        if bad:
            raise RejectEvents(bad, "not a JSON object")
        return pa.table({"sequence_number": pa.array(numbers, pa.int64()), "body": pa.array(bodies, pa.string())})


def _masked(found: Any) -> dict[str, Any]:
    """The object with the e-mail address masked: `ann@example.com` becomes `a***@example.com`."""
    if not isinstance(found, dict):
        raise ValueError("not an object")
    email = found.get("email")
    if isinstance(email, str):
        name, _, domain = email.rpartition("@")
        found["email"] = f"{name[:1]}***@{domain}"
    return found
