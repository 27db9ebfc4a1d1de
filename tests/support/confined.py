"""`Confined` without a child process, for virtual time: its clock does not wait for a process."""

import io
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from eventconsumer_storage.confined.reader import Blobs, Unreadable


class Here:
    """Runs the same functions in this process, without limits of memory and time."""

    async def run(
        self,
        target: str,
        sources: Sequence[Blobs],
        *,
        most: int,
        done: Callable[[Any], None] = lambda _: None,
        arguments: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """See `Confined`."""
        module, _, name = target.partition(":")
        contents = [io.BytesIO(await source.read(0, source.size)) for source in sources]
        pieces: list[bytes] = []
        try:
            result = getattr(import_module(module), name)(contents, pieces.append, **(arguments or {}))
        except Exception as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from error
        if sum(map(len, pieces)) > most:
            raise Unreadable(f"it has more content than the {most} bytes that are read of such a blob")
        yield b"".join(pieces)
        done(json.loads(json.dumps(result)))

    async def close(self) -> None:
        """Nothing to do."""
