"""A client for the admin API. Blocking, standard library only.

admin = AdminClient("http://127.0.0.1:8081")
admin.detach(hub="orders", partition="0", condition="amqp:link:detach-forced")
admin.move_retention("orders", "0", before=100)
"""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

_TURN_BYTES = 4_000_000  # of bodies in a call; their encoded size stays below the server's limit
_ENTRY_BYTES = 300  # approximate size of an event's properties in a call


class AdminError(Exception):
    """The admin API refused a call; the text is its error message."""


class AdminClient:
    """Calls the admin API of an emulator.

    Args:
        url: its address, such as ``http://127.0.0.1:8081``.
        timeout: seconds to wait for a response.

    Every method raises ``AdminError`` if the call is refused, and ``OSError`` if there is no response. Keywords named
    ``selection`` are any of hub, partition, group, connection and kind; without one, all links are selected.
    """

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        self.url = url.rstrip("/")
        self._timeout = timeout

    def call(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        """One call; fields that are None are omitted."""
        fields = {name: value for name, value in body.items() if value is not None}
        request = urllib.request.Request(
            self.url + quote(path),
            method=method,
            data=json.dumps(fields).encode() if fields else None,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                return dict(json.load(response))
        except urllib.error.HTTPError as error:
            with error:
                raise AdminError(json.load(error)["error"]) from None

    # The namespace

    def hubs(self) -> list[dict[str, Any]]:
        """Every hub with its partitions."""
        return list(self.call("GET", "/hubs")["hubs"])

    def hub(self, hub: str) -> dict[str, Any]:
        """A hub with its partitions' heads and tails."""
        return self.call("GET", f"/hubs/{hub}")

    def create_hub(self, hub: str, partitions: int = 4, groups: list[str] | None = None) -> dict[str, Any]:
        """Creates a hub."""
        return self.call("PUT", f"/hubs/{hub}", partitions=partitions, groups=groups)

    def delete_hub(self, hub: str) -> None:
        """Deletes a hub."""
        self.call("DELETE", f"/hubs/{hub}")

    def recreate_hub(self, hub: str, partitions: int | None = None) -> dict[str, Any]:
        """Deletes a hub and creates it again, empty."""
        return self.call("POST", f"/hubs/{hub}/recreate", partitions=partitions)

    def add_partitions(self, hub: str, total: int) -> dict[str, Any]:
        """Grows a hub to a total number of partitions."""
        return self.call("POST", f"/hubs/{hub}/partitions", total=total)

    def fail_over(self, hub: str, lost: dict[str, int] | None = None, *, recreated: bool = False) -> int:
        """Loses the newest events of partitions (id -> count), reuses their numbers, and drops all links.

        Args:
            hub: its name.
            lost: partition id -> number of lost sequence numbers; none: a promotion that keeps all events.
            recreated: whether the hub has a different creation time afterwards.

        Returns:
            The number of lost events.
        """
        return int(self.call("POST", f"/hubs/{hub}/failover", lost=lost or {}, recreated=recreated)["lost"])

    def put_event(
        self, hub: str, partition: str, body: bytes, properties: dict[str, Any] | None = None, key: str | None = None
    ) -> int:
        """Enqueues an event; returns its sequence number."""
        text = base64.b64encode(body).decode()
        path = f"/hubs/{hub}/partitions/{partition}/events"
        return int(self.call("POST", path, base64=text, properties=properties, key=key)["sequence_number"])

    def put_events(
        self, hub: str, partition: str, events: Iterable[tuple[bytes, dict[str, Any]]], times: int = 1
    ) -> None:
        """Enqueues many events, each a body and application properties; all of them `times` times, in calls of 4 MB."""
        path = f"/hubs/{hub}/partitions/{partition}/events"
        turn: list[dict[str, Any]] = []
        size = 0
        for body, properties in events:
            entry = {"base64": base64.b64encode(body).decode(), "properties": properties}
            if turn and size + len(body) > _TURN_BYTES:
                self.call("POST", path, events=turn, times=times)
                turn, size = [], 0
            turn.append(entry)
            size += len(body) + _ENTRY_BYTES
        if turn:
            self.call("POST", path, events=turn, times=times)

    def move_retention(self, hub: str, partition: str, before: int) -> int:
        """Drops every event below a sequence number; returns their number."""
        return int(self.call("POST", f"/hubs/{hub}/partitions/{partition}/retention", before=before)["dropped"])

    def compact(self, hub: str, partition: str, numbers: Iterable[int]) -> int:
        """Removes events at any position, as log compaction does; returns their number."""
        path = f"/hubs/{hub}/partitions/{partition}/compact"
        return int(self.call("POST", path, numbers=list(numbers))["removed"])

    def skip_numbers(self, hub: str, partition: str, count: int) -> int:
        """Skips sequence numbers; returns the next one."""
        return int(self.call("POST", f"/hubs/{hub}/partitions/{partition}/skip", count=count)["next_sequence_number"])

    def links(self, **selection: Any) -> list[dict[str, Any]]:
        """The readers and producers whose fields equal the selection."""
        links = self.call("GET", "/links")["links"]
        return [link for link in links if all(link[name] == value for name, value in selection.items())]

    def counters(self) -> dict[str, int]:
        """The numbers of events, transfers and tokens so far."""
        return self.call("GET", "/counters")

    def set_policies(self, *policies: tuple[str, str, list[str]]) -> None:
        """Replaces all policies by (name, key, rights)."""
        self.call("PUT", "/policies", policies=[{"name": n, "key": k, "rights": r} for n, k, r in policies])

    # Faults

    def drop_connections(self, connection: int | None = None) -> int:
        """Drops connections without a close frame; returns their number."""
        return int(self.call("POST", "/faults/drop-connections", connection=connection)["dropped"])

    def detach(self, condition: str | None = None, description: str | None = None, **selection: Any) -> int:
        """Detaches links with an error; returns their number."""
        reply = self.call("POST", "/faults/detach", condition=condition, description=description, **selection)
        return int(reply["detached"])

    def freeze(self, **selection: Any) -> None:
        """Stops the delivery of events on links."""
        self.call("POST", "/faults/freeze", **selection)

    def unfreeze(self, **selection: Any) -> None:
        """Ends the freeze with the same selection; without a selection, all freezes."""
        self.call("POST", "/faults/unfreeze", **selection)

    def answer_late(self, **selection: Any) -> None:
        """Leaves attaches without an answer until the faults are cleared."""
        self.call("POST", "/faults/late", **selection)

    def start_early(self, events: int, **selection: Any) -> None:
        """Lets new readers start so many sequence numbers before the position that they request."""
        self.call("POST", "/faults/early", events=events, **selection)

    def refuse(
        self, condition: str | None = None, description: str | None = None, times: int | None = None, **selection: Any
    ) -> None:
        """Refuses some or all attaches."""
        self.call("POST", "/faults/refuse", condition=condition, description=description, times=times, **selection)

    def busy(self, **selection: Any) -> None:
        """Responds to producers and new readers with the error that the server is busy."""
        self.call("POST", "/faults/busy", **selection)

    def delay(self, seconds: float) -> None:
        """Waits before each write of events and responses; 0 ends the delay."""
        self.call("POST", "/faults/delay", seconds=seconds)

    def redeliver(self, sequence_number: int, **selection: Any) -> int:
        """Makes readers continue from a sequence number; returns their number."""
        return int(self.call("POST", "/faults/redeliver", sequence_number=sequence_number, **selection)["readers"])

    def fail_cbs(self, status: int | None = None, description: str | None = None) -> None:
        """Refuses every token with a status, or never responds."""
        self.call("POST", "/faults/cbs", status=status, description=description)

    def expire_tokens(self, connection: int | None = None) -> int:
        """Expires every present token; returns the number of connections."""
        return int(self.call("POST", "/faults/expire-tokens", connection=connection)["expired"])

    def clear_faults(self) -> None:
        """Ends every lasting fault."""
        self.call("DELETE", "/faults")
