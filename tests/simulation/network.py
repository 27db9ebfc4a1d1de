"""Between a host and the world: every request is a message that can be late, lost, held, repeated or refused.

A request that was sent is no longer its host's: it arrives even if the host is paused or dead by then, which is how the
put of a former owner lands after a takeover. An answer belongs to the host, so a paused host reads it when it is
resumed, and a dead one never. A dead host can send nothing, so whatever its code does while it is taken down has no
effect.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_host.errors import HubUnreachable, LinkStolen
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.rows import EventRows
from eventconsumer_storage.errors import Unavailable
from tests.simulation.loop import Machine, SimLoop
from tests.support.fakes.blobs import FakeBlobStore
from tests.support.fakes.hub import NO_EVENTS, FakeHub, FakeSource, append_event

ANSWER_SECONDS = {"storage": 20.0, "hub": 10.0, "receiver": 30.0}  # longest wait for an answer
CONNECT_SECONDS = 5.0
PREFETCH = 12  # events on their way to a host ahead of what it asked for

UPSETS = ("refuse", "lose request", "lose answer", "hold", "repeat", "delay")


@dataclass
class Node:
    """A host on the network."""

    name: str
    machine: Machine
    witness: "Witness"
    alive: bool = True
    cut: set[str] = field(default_factory=set)  # sides that it cannot reach


@dataclass(frozen=True)
class Upset:
    """What happens to the next request that matches; empty texts match all."""

    kind: str
    node: str = ""
    operation: str = ""
    subject: str = ""  # a part of the blob's name

    def matches(self, node: Node, operation: str, subject: str) -> bool:
        """Does it happen to this request."""
        same = operation.startswith(self.operation) and self.subject in subject
        return same and self.node in {"", node.name}


class Witness(Protocol):
    """Sees what hosts do."""

    def sent(self, node: Node, operation: str, subject: str) -> None:
        """A request leaves a host."""

    def granted(self, node: Node, subject: str, since: float) -> None:
        """A host knows that a lease is its own, by a request sent at `since` on its clock."""

    def read(self, node: Node, subject: str, data: bytes) -> None:
        """A host has read a blob."""

    def attaching(self, node: Node, partition: str, after: int, epoch: int) -> None:
        """A host opens a link."""

    def stolen(self, node: Node, partition: str, epoch: int) -> None:
        """A host is told that its link was stolen."""


class Network:
    """All requests on their way."""

    def __init__(self, loop: SimLoop, rng: Random, note: Callable[[str], None]) -> None:
        self.upsets: list[Upset] = []
        self.held: deque[Callable[[], None]] = deque()
        self.author = ""  # whose request is being carried out
        self.requests = 0
        self.note = note
        self._loop = loop
        self._rng = rng
        self._context: Context = copy_context()  # requests on their way belong to nobody

    async def request(
        self,
        node: Node,
        side: str,
        operation: str,
        subject: str,
        carry_out: Callable[[], Coroutine[Any, Any, Any]],
        failed: Callable[[str], EventConsumerError],
    ) -> Any:
        """Send a request, and wait for the answer for a bounded time.

        Raises:
            EventConsumerError: What the other side answers, or `failed` where it does not.
        """
        if not node.alive:
            raise failed("the host is dead")
        self.requests += 1
        node.witness.sent(node, operation, subject)
        if side in node.cut:
            await asyncio.sleep(CONNECT_SECONDS)
            raise failed("no connection")
        kind = self._kind(node, operation, subject)
        if kind in {"refuse", "lose request"}:
            await asyncio.sleep(self.latency() if kind == "refuse" else self._rng.uniform(0.5, 10))
            raise failed("server busy" if kind == "refuse" else "connection reset")
        answer: asyncio.Future[Any] = self._loop.create_future()

        def arrive() -> None:
            self.author = node.name
            try:
                outcome: Any = _complete(carry_out())
            except EventConsumerError as error:
                outcome = error
            finally:
                self.author = ""
            if kind == "repeat" and side == "storage":
                self._later(self._rng.uniform(0.1, 30), again)
            if kind == "lose answer":
                outcome = failed("connection reset")
            self._later(self.latency(), reply, outcome)

        def again() -> None:
            self.author = node.name
            try:
                _complete(carry_out())
            except EventConsumerError as error:
                self.note(f"repeated {operation} {subject}: {type(error).__name__}")
            finally:
                self.author = ""

        def reply(outcome: Any) -> None:
            if node.alive and side not in node.cut:
                self._loop.call_soon(_settle, answer, outcome, context=node.machine.context)

        if kind == "hold":
            self.held.append(arrive)
        else:
            self._later(self._rng.uniform(1, 15) if kind == "delay" else self.latency(), arrive)
        try:
            async with asyncio.timeout(ANSWER_SECONDS[side]):
                return await answer
        except TimeoutError:
            raise failed("no answer") from None

    def release(self) -> None:
        """Let the oldest held request arrive."""
        if self.held:
            self._context.copy().run(self.held.popleft())

    def latency(self) -> float:
        """How long a message takes: mostly short."""
        return self._rng.uniform(0.2, 2) if self._rng.random() < 0.03 else self._rng.uniform(0.001, 0.03)

    def _later(self, seconds: float, what: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(seconds, what, *args, context=self._context.copy())

    def _kind(self, node: Node, operation: str, subject: str) -> str:
        for upset in self.upsets:
            if upset.matches(node, operation, subject):
                self.upsets.remove(upset)
                self.note(f"{upset.kind}: {operation} {subject} of {node.name}")
                return upset.kind
        return ""


class RemoteStore:
    """`BlobStore` as one host reaches it: every operation of the fake, over the network."""

    def __init__(self, node: Node, network: Network, store: FakeBlobStore) -> None:
        self._node = node
        self._network = network
        self._store = store
        self.account = store.account
        self.url = store.url

    def __getattr__(self, operation: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Any operation."""
        if operation.startswith("_"):
            raise AttributeError(operation)

        async def call(*args: Any, **options: Any) -> Any:
            if operation == "close":
                return None
            subject = args[0] if args else ""
            since = self._node.machine.time()
            result = await self._network.request(
                self._node,
                "storage",
                operation,
                subject,
                lambda: getattr(self._store, operation)(*args, **options),
                lambda text: Unavailable(f"{operation}: {text}"),
            )
            if operation in {"acquire_lease", "renew_lease"} or "/ownership/" in subject:
                self._node.witness.granted(self._node, subject, since)
            if operation == "read" and result is not None:
                self._node.witness.read(self._node, subject, result.data)
            return result

        return call


class RemoteHub:
    """`Hub` as one host reaches it."""

    def __init__(self, node: Node, network: Network, hub: FakeHub) -> None:
        self._node = node
        self._network = network
        self._hub = hub

    def __getattr__(self, operation: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Any operation."""
        if operation.startswith("_"):
            raise AttributeError(operation)

        async def call(*args: Any) -> Any:
            return await self._ask(operation, *args)

        return call

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> "RemoteSource":
        """See `Hub`."""
        if self._node.alive:
            self._network.note(f"{self._node.name} attaches to {partition} behind {after} with epoch {epoch}")
            self._node.witness.attaching(self._node, partition, after, epoch)
        attached: list[FakeSource] = []
        left = False

        async def attach() -> FakeSource:
            attached.append(await self._hub.open(partition, after, epoch, prefetch))
            attached[-1].closed = left
            return attached[-1]

        try:
            server = await self._ask("open", partition, after, epoch, prefetch, carry_out=attach)
        except asyncio.CancelledError:  # our client detaches the link then, also one that the hub attaches later
            left = self._node.alive and "hub" not in self._node.cut
            for source in attached:
                source.closed = left
            raise
        except LinkStolen:
            self._network.note(f"{self._node.name} is refused at {partition} with epoch {epoch}")
            self._node.witness.stolen(self._node, partition, epoch)
            raise
        return RemoteSource(self._node, self._network, partition, server)

    async def close(self) -> None:
        """See `Hub`."""

    async def _ask(
        self, operation: str, *args: Any, carry_out: Callable[[], Coroutine[Any, Any, Any]] | None = None
    ) -> Any:
        def ask() -> Coroutine[Any, Any, Any]:
            if args and args[0] not in self._hub.partitions:
                raise HubUnreachable("no such partition")
            return carry_out() if carry_out else getattr(self._hub, operation)(*args)  # type: ignore[no-any-return]

        return await self._network.request(
            self._node, "hub", operation, str(args[0]) if args else "", ask, HubUnreachable
        )


class RemoteSource:
    """`Source` as one host reaches it: events that are on their way come even after the link was stolen."""

    def __init__(self, node: Node, network: Network, partition: str, server: FakeSource) -> None:
        self._node = node
        self._network = network
        self._partition = partition
        self._server = server
        self._coming: list[tuple[int, bytes, int, int]] = []  # number, body, era and time, see `FakePartition`

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`."""
        if not self._coming:
            if not self._node.alive:
                raise HubUnreachable("the host is dead")
            if "hub" in self._node.cut:
                await asyncio.sleep(max_wait)
                return NO_EVENTS
            if self._server.stolen:
                self._node.witness.stolen(self._node, self._partition, self._server.epoch)
            got = await self._server.receive(PREFETCH, max_wait)
            if not len(got):
                return got
            rows = got.rows()
            eras = (int(o) - n * 10 for o, n in zip(rows.offsets, rows.sequence_numbers, strict=True))
            self._coming += zip(rows.sequence_numbers, rows.bodies, eras, rows.enqueued_ms, strict=True)
        taken, self._coming = self._coming[:max_events], self._coming[max_events:]
        if taken:
            await asyncio.sleep(self._network.latency())
        found = EventRows()
        for number, body, era, time in taken:
            append_event(found, number, body, era, time)
        return EventBatch.of(found)

    def hurry(self) -> None:
        """See `Source`."""

    async def close(self) -> None:
        """See `Source`."""
        if self._node.alive and "hub" not in self._node.cut:
            self._server.closed = True

    async def abandon(self) -> None:
        """See `Source`."""
        await self.close()


def _complete(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing; it may give way, and nobody takes it."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as done:
        return done.value


def _settle(answer: asyncio.Future[Any], outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, EventConsumerError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
