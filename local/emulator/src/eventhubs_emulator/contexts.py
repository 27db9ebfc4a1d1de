"""The interfaces of session and connection for links and services."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .broker import Broker
from .errors import AmqpError
from .performatives import Detach, Performative
from .tokens import Grant


class ConnectionContext(Protocol):
    """The connection of a link; `connection.Connection` documents each member."""

    broker: Broker
    number: int
    wake: Callable[[], None]
    container_id: str
    peer_max_frame_size: int
    output: list[bytes]

    @property
    def sessions(self) -> Mapping[int, "SessionContext"]: ...
    def grant(self, grant: Grant) -> None: ...
    def has_right(self, path: str, right: str, now: float) -> bool: ...
    def authorize(self, path: str, right: str) -> None: ...
    def hold(self, size: int) -> None: ...
    def log(self, event: str, link: Any = None, error: AmqpError | None = None) -> None: ...


class SessionContext(Protocol):
    """The session of a link; `session.Session` documents each member."""

    channel: int

    @property
    def connection(self) -> ConnectionContext: ...
    @property
    def links(self) -> Mapping[int, object]: ...
    @property
    def window(self) -> int: ...
    def send(self, performative: Performative) -> None: ...
    def send_flow(
        self, handle: int | None = None, count: int | None = None, credit: int | None = None, drain: bool = False
    ) -> None: ...
    def take_window(self, frames: int = 1) -> bool: ...
    def take_delivery_id(self, count: int = 1) -> int: ...
    def detach(self, link: Any, detach: Detach) -> None: ...
