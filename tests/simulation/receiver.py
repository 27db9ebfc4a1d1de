"""The receiver of notices: it accepts them, or refuses those of some partitions."""

import json
from typing import Any

from eventconsumer_host.errors import NoticeFailed
from eventconsumer_host.notice.message import NoticeMessage
from tests.simulation.network import Network, Node
from tests.simulation.noticesseen import NoticesSeen

REFUSALS: tuple[dict[str, Any], ...] = (
    {},
    {"lasting": True, "only_this": True},
    {"retry_after": 20.0},
    {"lasting": True},
)


class Receiver:
    """The endpoint of one stream's notices."""

    def __init__(self, seen: NoticesSeen) -> None:
        self.seen = seen
        self.refused: dict[str, int] = {}  # partition -> number in REFUSALS

    async def accept(self, notice: str, author: str) -> None:
        """A notice arrives."""
        partition = notice.split("/")[2]
        if partition in self.refused:
            raise NoticeFailed("f", "refused", **REFUSALS[self.refused[partition]])
        self.seen.acknowledged(author, notice)


class RemoteReceiver:
    """The receiver as one session of a host reaches it; see `leader.notices.NoticeReceiver`."""

    def __init__(self, node: Node, network: Network, receiver: Receiver, known: set[str]) -> None:
        self._node = node
        self._network = network
        self._receiver = receiver
        self._known = known  # notices whose acknowledgement came

    async def post(self, message: NoticeMessage) -> None:
        """See `leader.notices.NoticeReceiver`."""
        notice: str = json.loads(message.body)["id"]
        if self._node.alive:
            self._receiver.seen.sent(self._node.name, notice, self._known)
        await self._network.request(
            self._node,
            "receiver",
            "notice",
            notice,
            lambda: self._receiver.accept(notice, self._node.name),
            lambda text: NoticeFailed("f", text),
        )
        self._known.add(notice)

    async def close(self) -> None:
        """See `leader.notices.NoticeReceiver`."""
