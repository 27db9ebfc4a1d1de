"""Checks that all parts of a consumer belong to one chain (S9), and that no other consumer shares any of them.

The record of the chain names the chain and its resource. The record of the leases, batch manifests, claims, commit
records, files and the record of the output must name the same chain; only hosts of that resource may hold leases.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import ValidationError

from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_api.wire.identity import (
    BatchFolder,
    ChainRecord,
    LeaseRecord,
    OutputRecord,
    chain_name,
    consumer_of,
    output_record_name,
    output_root,
)
from eventconsumer_audit.codes import Code
from eventconsumer_audit.container import Container
from eventconsumer_audit.leases import LeaseFacts
from eventconsumer_audit.model import NOWHERE, ChainKey, Findings
from eventconsumer_storage.errors import StorageError

MOST_OUTPUTS = 20  # paths whose records are read: a consumer has one, unless its spec was changed
_RECORD = "/_chain.json"
_REPLAY = "_replays/"


@dataclass(frozen=True)
class Outputs:
    """The storage account that Spark writes to: always the sink's account.

    Attributes:
        account: Its name.
        open: Opens one of its containers.
    """

    account: str
    open: Callable[[str], Container]


class IdentityAudit:
    """One consumer's identity.

    Args:
        files: The container of the files.
        prefix: Their folder.
        resource: The EventConsumer that is audited; None: unknown.
        findings: Collects findings.

    Attributes:
        record: The record of the chain; None: it does not exist, or it cannot be read.
    """

    def __init__(self, files: Container, prefix: str, resource: ResourceRef | None, findings: Findings) -> None:
        self.record: ChainRecord | None = None
        self._damaged = False
        self._files = files
        self._prefix = prefix
        self._resource = resource
        self._findings = findings
        # Output path in commit records -> name of batches' folders there -> the first record with both.
        self._outputs: dict[str, dict[BatchFolder | None, str]] = {}

    @property
    def chain(self) -> str:
        """Identity of the chain; empty: unknown."""
        return self.record.chain if self.record else ""

    async def read(self) -> None:
        """Read the record of the chain and the records of enclosing folders, before everything else.

        Raises:
            StorageError: A request failed.
        """
        data = await self._files.read(chain_name(self._prefix))
        if data is not None:
            self.record = self._parsed(data)
        if self.record:
            self._check_resource(self.record.resource)
        parts = self._prefix.split("/")
        for length in range(1, len(parts)):
            outer, rest = "/".join(parts[:length]), "/".join(parts[length:])
            if not rest.startswith(_REPLAY) and await self._files.read(chain_name(outer)) is not None:
                self._nested(chain_name(outer), f"the sink prefix {self._prefix} is inside the sink prefix {outer}")

    def check_present(self) -> None:
        """Check that the record exists, if files or batches exist."""
        if self.record is None and not self._damaged:
            self._find(Code.CHAIN_RECORD_MISSING, "the record of the chain does not exist", chain_name(self._prefix))

    def stray(self, name: str) -> None:
        """Check whether a foreign blob below the prefix is the record of another chain."""
        if name.endswith(_RECORD):
            inner = name.removesuffix(_RECORD)
            self._nested(name, f"the sink prefix {inner} is inside the sink prefix {self._prefix}")

    def check_part(self, part: str, chain: str, blob: str, place: ChainKey = NOWHERE) -> None:
        """Check a part that names its chain.

        Args:
            part: The part, as the subject of a sentence.
            chain: The chain that it names; empty: none.
            blob: Its name.
            place: Its partition.
        """
        if self.record and chain != self.chain:
            named = f"chain {chain}" if chain else "no chain"
            self._find(
                Code.CHAIN_DIFFERS, f"{part} names {named}, but the record names chain {self.chain}", blob, place
            )

    def claim(self, number: int, blob: str, data: bytes) -> None:
        """Check the claim of a batch's newest attempt; a claim without a chain comes from a user's program."""
        try:
            chain = str(json.loads(data).get("chain") or "")
        except (ValueError, AttributeError, RecursionError):
            return  # only the next attempt reads it
        if chain:
            self.check_part(f"the claim of batch {number}", chain, blob)

    def commit(self, number: int, blob: str, body: Mapping[str, object]) -> None:
        """Check a commit record, and keep its output path; a record without a chain comes from a user's program."""
        if chain := str(body.get("chain") or ""):
            self.check_part(f"the commit record of batch {number}", chain, blob)
        output, folder = output_root(str(body.get("output") or ""))
        if output and (output in self._outputs or len(self._outputs) < MOST_OUTPUTS):
            self._outputs.setdefault(output, {}).setdefault(folder, blob)

    async def check_outputs(self, outputs: Outputs | None) -> None:
        """Check the records of the paths that batches were written to; without `outputs`, do nothing."""
        if outputs is None:
            return
        for output, folders in self._outputs.items():
            try:
                unread = await self._check_output(output, folders, outputs)
            except StorageError as error:
                unread = str(error)
            if unread:
                text = f"the record of the output {output} was not checked: {unread}"
                self._find(Code.OUTPUT_UNREAD, text, next(iter(folders.values())))

    def check_leases(
        self, name: str, data: bytes | None, namespace: str, hub: str, consumer_group: str, *, used: bool
    ) -> None:
        """Check the record of the leases.

        Args:
            name: Of its blob.
            data: Its content; None: it does not exist.
            namespace: The hub's, from the record of the segment; empty: unknown.
            hub: Its name.
            consumer_group: Of the consumer.
            used: Whether there are leases.
        """
        if data is None:
            if used:
                self._find(Code.LEASE_RECORD_MISSING, "the record of the leases does not exist", name)
            return
        try:
            found = LeaseRecord.model_validate_json(data)
        except ValidationError:
            self._find(Code.LEASE_RECORD_DAMAGED, "the record of the leases cannot be read", name)
            return
        differences = [
            f"{what} {theirs} (this consumer: {ours})"
            for what, theirs, ours in (
                ("Event Hub", f"{found.namespace}/{found.hub}", f"{namespace}/{hub}"),
                ("consumer group", found.consumer_group, consumer_group),
                ("chain", found.chain, self.chain),
            )
            if theirs.lower() != ours.lower() and ours.strip("/")
        ]
        if differences:
            text = f"the leases belong to EventConsumer {found.resource}, which drains into {found.sink}: they name "
            self._find(Code.CHECKPOINT_STORE_IN_USE, text + ", ".join(differences), name)

    async def check_owners(self, leases: Mapping[str, LeaseFacts], held: Callable[[LeaseFacts], bool]) -> None:
        """Check the owners of the leases, if no other program shares them.

        Args:
            leases: By partition.
            held: Whether the owner of a lease is alive.

        Raises:
            StorageError: A request failed.
        """
        if self.record is None:
            return
        own = {self.record.resource.path}
        foreign = [
            lease for lease in leases.values() if lease.owner and held(lease) and consumer_of(lease.owner) not in own
        ]
        if foreign:  # another EventConsumer may have adopted the chain since the record was read
            data = await self._files.read(chain_name(self._prefix))
            now = self._parsed(data) if data is not None else None
            own |= {now.resource.path} if now else set()
        for lease in foreign:
            consumer = consumer_of(lease.owner or "")
            if consumer not in own:
                owner = f"{lease.owner} of EventConsumer {consumer}" if consumer else f"another program ({lease.owner})"
                text = f"{owner} holds the lease, but the chain belongs to EventConsumer {self.record.resource.path}"
                self._find(Code.LEASE_OWNER_FOREIGN, text, lease.blob, ("", lease.partition))

    def _check_resource(self, found: ResourceRef) -> None:
        own = self._resource
        if own is None or found == own:
            return
        name = chain_name(self._prefix)
        if found.path == own.path:
            text = f"{own.path} was deleted and created again (uid {found.uid}, now {own.uid})"
            self._find(Code.RESOURCE_RENEWED, f"{text}: its hosts take over the chain when they start", name)
        else:
            text = f"the chain belongs to EventConsumer {found.path}, but {own.path} has the same spec.sink"
            self._find(Code.CHAIN_IN_USE, text, name)

    async def _check_output(self, output: str, folders: Mapping[BatchFolder | None, str], outputs: Outputs) -> str:
        """Check the record of one output path; returns why it was not checked."""
        url = urlsplit(output)
        container, _, host = url.netloc.rpartition("@")
        if not container or not url.path.strip("/"):
            return "it is not a path such as abfss://<container>@<account>.dfs.core.windows.net/<folder>"
        if host.partition(".")[0] != outputs.account:
            return "it is in a different storage account than the files"
        name = output_record_name(url.path)
        data = await outputs.open(container).read(name)
        if data is None:
            return f"blob {name} does not exist in container {container}"
        try:
            found = OutputRecord.model_validate_json(data)
        except ValidationError:
            return f"blob {name} in container {container} cannot be read"
        if self.record and found.chain != self.chain:
            text = f"the output {output} belongs to EventConsumer {found.resource}, which drains into {found.sink}"
            self._find(Code.OUTPUT_IN_USE, f"{text}: it names chain {found.chain}, not {self.chain}", name)
        for folder, blob in folders.items():
            if folder and folder is not found.batch_folder:
                text = f"a folder of the output {output} is {folder}=<n>, but its record says {found.batch_folder}=<n>"
                self._find(Code.OUTPUT_MIXED, f"{text}: programs that read the whole output may miss batches", blob)
        return ""

    def _parsed(self, data: bytes) -> ChainRecord | None:
        try:
            return ChainRecord.model_validate_json(data)
        except ValidationError:
            if not self._damaged:
                self._damaged = True
                text = "the record of the chain cannot be read"
                self._find(Code.CHAIN_RECORD_DAMAGED, text, chain_name(self._prefix))
            return None

    def _nested(self, blob: str, text: str) -> None:
        self._find(Code.PREFIX_NESTED, f"{text}: two chains share a folder", blob)

    def _find(self, code: Code, message: str, blob: str, place: ChainKey = NOWHERE) -> None:
        self._findings.add(code, message, place, blob=blob)
