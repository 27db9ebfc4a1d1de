"""The blobs of sessions: one a pod, under a storage lease of ordinary duration; the metadata names who holds it."""

import contextlib
from collections.abc import Iterable

from eventconsumer_processor.errors import Conflict, LeaseLost, NotFound
from eventconsumer_processor.lease.sessions import Session
from eventconsumer_processor.storage import BlobInfo, BlobStore

TOKEN = "token"  # noqa: S105 - a key of metadata


class SessionBlobs:
    """The sessions of one consumer group. All methods may raise `StorageError`."""

    def __init__(self, blobs: BlobStore, folder: str, seconds: int) -> None:
        """Sessions in a folder.

        Args:
            blobs: The lease container.
            folder: What the names of their blobs start with; programs that share the leases must not look there.
            seconds: Duration of a session's lease.
        """
        self._blobs = blobs
        self._folder = folder
        self._seconds = seconds

    def name(self, pod: str) -> str:
        """The blob of a pod's session."""
        return self._folder + pod

    def listed(self, infos: Iterable[BlobInfo]) -> dict[str, Session]:
        """The sessions among blobs that were listed with their metadata, by pod."""
        found = {}
        for info in infos:
            if info.name.startswith(self._folder):
                pod = info.name.removeprefix(self._folder)
                facts = {key.lower(): value for key, value in info.metadata.items()}
                found[pod] = Session(pod, facts.get(TOKEN, ""), info.leased)
        return found

    async def begin(self, session: Session) -> None:
        """Begin a session, under a token of its own.

        Raises:
            Conflict: Another process of the pod holds it, or its lease has not run out yet.
        """
        name = self.name(session.pod)
        try:
            await self._blobs.acquire_lease(name, session.token, self._seconds)
        except NotFound:
            with contextlib.suppress(Conflict):
                await self._blobs.put(name, b"", if_absent=True)
            await self._blobs.acquire_lease(name, session.token, self._seconds)
        await self._blobs.put(name, b"", metadata={TOKEN: session.token}, lease_id=session.token)

    async def renew(self, session: Session) -> None:
        """Go on with a session.

        Raises:
            LeaseLost: It is over.
        """
        try:
            await self._blobs.renew_lease(self.name(session.pod), session.token)
        except (Conflict, NotFound) as error:
            raise LeaseLost(f"session of {session.pod}: {error}") from error

    async def end(self, session: Session) -> None:
        """End a session: what is tied to it is free."""
        await self._blobs.release_lease(self.name(session.pod), session.token)
