"""The layout of the current Azure SDKs: names and metadata of ownership and checkpoint blobs, which have no content.

    {namespace}/{hub}/{group}/ownership/{partition}    ownerid (empty: released)
    {namespace}/{hub}/{group}/checkpoint/{partition}   offset, sequencenumber

Most SDKs write the first three names in lower case, some as their user spells them: see `spelling`. This project adds
keys to the ownership that other programs drop when they claim it: `epoch`, `token` of the ownership, and `seconds`,
after which an owner that no longer writes is considered dead. An ownership without these keys belongs to another
program.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_api.wire import sdkcheckpoint
from eventconsumer_api.wire.sdkcheckpoint import NO_OFFSET
from eventconsumer_host.errors import LeaseInvalid
from eventconsumer_host.lease.model import Checkpoint

OWNERSHIP, CHECKPOINT = "ownership", "checkpoint"  # folders


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the blobs of one consumer group."""

    prefix: str  # prefix, unchanged; the SDKs have none
    namespace: str
    hub: str
    group: str
    spelling: str = ""  # `<namespace>/<hub>/<group>` as in the names of the blobs; empty: lower case

    @property
    def home(self) -> str:
        """The folder in lower case: the record of the leases is beside it, whatever the spelling."""
        return f"{self.prefix.strip()}{self._path}/"

    @property
    def folder(self) -> str:
        """Prefix of the names of all blobs."""
        return f"{self.prefix.strip()}{self.spelling or self._path}/"

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Namespace, hub and group in lower case. A host name may have a port, which some libraries leave out."""
        host = self.namespace.lower()
        return (host, host.partition(":")[0]), (self.hub.lower(),), (self.group.lower(),)

    def ownership(self, partition: str) -> str:
        """The blob that names the owner."""
        return f"{self.folder}{OWNERSHIP}/{partition}"

    def checkpoint(self, partition: str) -> str:
        """The checkpoint's blob."""
        return f"{self.folder}{CHECKPOINT}/{partition}"

    @property
    def _path(self) -> str:
        return f"{self.namespace}/{self.hub}/{self.group}".lower()


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner of a partition."""

    owner: str = ""
    epoch: int | None = None  # None: another program wrote it
    token: str = ""
    seconds: int = 0

    @property
    def ours(self) -> bool:
        """Whether a host of this project wrote it."""
        return self.epoch is not None

    def encode(self) -> dict[str, str]:
        """The blob's metadata."""
        return {
            "ownerid": self.owner,
            "epoch": str(self.epoch or 0),
            "token": self.token,
            "seconds": str(self.seconds),
        }


def ownership(metadata: Mapping[str, str]) -> Ownership:
    """The ownership in a blob's metadata; with invalid keys it counts as another program's."""
    facts = _lower(metadata)
    owner = facts.get("ownerid", "")
    try:
        return Ownership(owner, _integer(facts["epoch"]), facts["token"], _integer(facts["seconds"]))
    except (KeyError, ValueError):
        return Ownership(owner)


def encode_checkpoint(checkpoint: Checkpoint) -> dict[str, str]:
    """Metadata of a checkpoint's blob; the SDKs continue at the offset."""
    return {"offset": checkpoint.offset or NO_OFFSET, "sequencenumber": str(checkpoint.sequence_number)}


def decode_checkpoint(metadata: Mapping[str, str]) -> Checkpoint | None:
    """The checkpoint in a blob's metadata; None if there is none. Its sequence number is -1 where only an offset is.

    Raises:
        LeaseInvalid: It has a position that cannot be parsed.
    """
    try:
        found = sdkcheckpoint.parse(metadata)
    except ValueError as error:
        raise LeaseInvalid(str(error)) from None
    if found is None:
        return None
    return Checkpoint(found.offset, -1 if found.number is None else found.number)


def _lower(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value.strip() for key, value in metadata.items()}


def _integer(text: str) -> int:
    if len(text) > 20 or not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit():
        raise ValueError("not an integer")
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("not an integer of 64 bits")
    return value
