"""Publishes the demo's orders through the unmodified azure-eventhub producer; prints a summary as one JSON line.

Runs in a pod of the processor image, so it does not import this package. Event i has the partition key
`customer-<i mod 40>`, the properties `id` = i and `kind`, and a JSON body of about 1 KB.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

from azure.eventhub import EventData, EventHubProducerClient

KEYS = 40
KINDS = ("created", "paid", "shipped")
BATCH = 500
NOTE = "x" * 860


def event(i: int) -> EventData:
    """The i-th order."""
    body = {"order": i, "customer": f"customer-{i % KEYS:02d}", "amount": (i * 7919) % 100_000 / 100, "note": NOTE}
    data = EventData(json.dumps(body))
    data.properties = {"id": i, "kind": KINDS[i % len(KINDS)]}
    data.content_type = "application/json"
    return data


def publish(client: EventHubProducerClient, first: int, count: int) -> dict[str, dict[str, int]]:
    """Send `count` events from id `first` on, each key's events in order; return {key: {events, id_sum}}."""
    sent: dict[str, dict[str, int]] = defaultdict(lambda: {"events": 0, "id_sum": 0})
    started = time.monotonic()
    done = 0
    # Blocks of ids, so that all keys are published in parallel and not one after the other.
    end = first + count
    for block in range(first, end, KEYS * BATCH):
        for i in range(block, min(block + KEYS, end)):
            key = f"customer-{i % KEYS:02d}"
            ids = range(i, min(block + KEYS * BATCH, end), KEYS)
            client.send_batch([event(i) for i in ids], partition_key=key)
            sent[key]["events"] += len(ids)
            sent[key]["id_sum"] += sum(ids)
            done += len(ids)
        print(f"published {done:,} of {count:,} in {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)
    return dict(sent)


def main() -> None:
    """Parse the arguments, publish, print the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--connection-string-file", type=Path, required=True)
    arguments = parser.parse_args()
    with EventHubProducerClient.from_connection_string(arguments.connection_string_file.read_text()) as client:
        sent = publish(client, arguments.first, arguments.events)
    print(json.dumps({"sent": sent}), flush=True)


if __name__ == "__main__":
    main()
