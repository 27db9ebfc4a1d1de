"""The actions of a `FaultProxy`; each one simulates a failure of a network or a storage service."""

import asyncio
from dataclasses import dataclass

from tests.support.faultproxy import Handling


@dataclass(frozen=True)
class Fail:
    """Storage does not get the request; the response is an error."""

    status: int
    code: str = "ServerBusy"
    retry_after: int | None = None  # seconds

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        body = f'<?xml version="1.0"?><Error><Code>{self.code}</Code><Message>A fault.</Message></Error>'.encode()
        lines = [
            f"HTTP/1.1 {self.status} Fault",
            f"x-ms-error-code: {self.code}",
            "Content-Type: application/xml",
            f"Content-Length: {0 if handling.request.method == 'HEAD' else len(body)}",
        ]
        if self.retry_after is not None:
            lines.append(f"Retry-After: {self.retry_after}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        await handling.answer(head if handling.request.method == "HEAD" else head + body)


@dataclass(frozen=True)
class Down:
    """The connection is reset before storage gets the request."""

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        handling.cut()


@dataclass(frozen=True)
class DropReply:
    """Storage applies the request, and the response is lost."""

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        await handling.forward()
        handling.cut()


@dataclass(frozen=True)
class Delay:
    """Storage gets the request later."""

    seconds: float

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        await asyncio.sleep(self.seconds)
        await handling.through()


@dataclass(frozen=True)
class Hold:
    """Hold the request until `Fault.release` or `Fault.discard`; without them, the server hangs.

    Storage gets a held request when it is released, even if its client has disconnected.
    """

    applied: bool = False  # hold the answer instead of the request

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        reply = await handling.forward() if self.applied else None
        if not await handling.fault.freed():
            handling.cut()
        elif reply is None:
            await handling.through()
        else:
            await handling.answer(reply.head + reply.body)


@dataclass(frozen=True)
class Replay:
    """Storage gets the request twice, as from a network that repeats; the client gets one of the responses."""

    answer_first: bool = False

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        replies = [await handling.forward(), await handling.forward()]
        reply = replies[0 if self.answer_first else 1]
        await handling.answer(reply.head + reply.body)


@dataclass(frozen=True)
class ResetUpload:
    """The connection breaks on both sides when storage has got a part of the body."""

    fraction: float = 0.5

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        await handling.forward_part(int(len(handling.request.body) * self.fraction))
        handling.cut()


@dataclass(frozen=True)
class Truncate:
    """Storage applies the request, and its response breaks off after some bytes."""

    size: int

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        reply = await handling.forward()
        await handling.answer((reply.head + reply.body)[: self.size])
        handling.cut()


@dataclass(frozen=True)
class Amend:
    """Storage applies the request, and its response gets another header."""

    name: str
    value: str

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        reply = await handling.forward()
        status, *lines = reply.head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        kept = [line for line in lines if not line.lower().startswith(f"{self.name}:".encode())]
        head = b"\r\n".join([status, *kept, f"{self.name}: {self.value}".encode()]) + b"\r\n\r\n"
        await handling.answer(head + reply.body)


@dataclass(frozen=True)
class Slow:
    """Body and response are transferred slowly."""

    bytes_per_second: float

    async def apply(self, handling: Handling) -> None:
        """See `Action`."""
        reply = await handling.forward(self.bytes_per_second)
        await handling.answer(reply.head + reply.body, self.bytes_per_second)
