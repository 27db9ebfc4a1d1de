"""Blobs that other programs may write."""

from typing import Any

from pydantic import ValidationError

from eventconsumer_api.wire.batch import BatchClaim, BatchCommit, BatchManifest
from eventconsumer_api.wire.identity import ChainRecord, LeaseRecord, OutputRecord, SegmentRecord
from eventconsumer_api.wire.watermark import WatermarkRecord
from eventconsumer_audit import leases as audited
from eventconsumer_audit.batches import BatchAudit
from eventconsumer_audit.identity import IdentityAudit
from eventconsumer_audit.model import Findings
from eventconsumer_audit.watermark import WatermarkAudit
from eventconsumer_host.errors import LeaseInvalid
from eventconsumer_host.handler.deadletter import LetterFolder, parse_letter
from eventconsumer_host.host.replay import parse_ends
from eventconsumer_host.lease import azuresdk, eventprocessorhost
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.notice import cursor
from eventconsumer_host.sink.gaps import RANGES
from eventconsumer_host.sink.gaps import parse as parse_gaps
from eventconsumer_host.sink.gaps import text as gap_text
from eventconsumer_host.sink.slots import parse_genesis
from tests.fuzz.targets.allow import allow, same


def leases(data: bytes) -> None:
    """Leases: one that is read can be written, and is read again as it was; the audit reads the same, or damage.

    Input: `{` and the rest of a body in the layout EventProcessorHost, or lines of metadata, `key=value`.
    """
    if data[:1] == b"{":
        facts = audited.legacy("0", "blob", data, held=False, etag="")
        found = allow(LeaseInvalid, eventprocessorhost.decode, data, "0")
        assert bool(facts.damage) == (found is None) or len(data) > eventprocessorhost.MAX_BODY_BYTES
        if found:
            assert (facts.owner, facts.epoch) == (found.owner, found.epoch)
            checkpoint = found.checkpoint or Checkpoint("", -1)
            number = -1 if facts.checkpoint is None else facts.checkpoint
            assert (facts.offset, number) == (checkpoint.offset, checkpoint.sequence_number)
            for java in (True, False):
                assert eventprocessorhost.decode(eventprocessorhost.encode(found, java=java), "0") == found
            eventprocessorhost.dialect_of(data)
        return
    lines = (line.partition("=") for line in data.decode(errors="replace").split("\n"))
    metadata = {key: value for key, _, value in lines}
    owner = azuresdk.ownership(metadata)
    assert azuresdk.ownership(owner.encode()) == owner or not owner.ours
    reached = allow(LeaseInvalid, azuresdk.decode_checkpoint, metadata)
    if reached:
        assert azuresdk.decode_checkpoint(azuresdk.encode_checkpoint(reached)) == reached
    owned = audited.ownership(audited.LeaseFacts("0", "blob"), metadata, etag="")
    facts = audited.checkpoint(owned, "blob", metadata)
    if reached:  # hosts and the audit read alike
        assert (facts.offset, -1 if facts.checkpoint is None else facts.checkpoint) == (
            reached.offset,
            max(reached.sequence_number, -1),
        )


def records(data: bytes) -> None:
    """Records in storage: each parser gives a record that is written as it was read, or one kind of error.

    Input: JSON; all parsers read it.
    """
    for model in (
        BatchManifest,
        BatchClaim,
        BatchCommit,
        ChainRecord,
        SegmentRecord,
        LeaseRecord,
        OutputRecord,
        WatermarkRecord,
    ):
        found = allow(ValidationError, model.model_validate_json, data)
        if found is not None:
            same(found)
    allow(ValueError, parse_genesis, data)
    allow(ValueError, parse_ends, data)
    findings = Findings()
    identity = IdentityAudit(_nothing(), "prefix", None, findings)
    watermark = WatermarkAudit(findings, identity)
    batches = BatchAudit(findings, identity, watermark)
    watermark.record("blob", data, ["segmentId"])
    batches.manifest(1, "blob", data)
    batches.commits.add(1, "blob", data)
    identity.claim(1, "blob", data)


def notices(data: bytes) -> None:
    """The cursor of notices: the places in it are written as they were read, and none is behind itself.

    Input: JSON.
    """
    record = allow(ValueError, cursor.parsed, data)
    if record is None:
        return
    same(record)
    places = cursor.places_of(record)
    again = cursor.places_of(cursor.record_of(places, record.chain, record.written_at))
    names = places.known.keys() | again.known.keys()
    assert all(again.of(name) == places.of(name) for name in names)
    order = sorted({record.segment_id, *record.segments.values()})
    joined = cursor.joined(places, again, order)
    assert all(joined.of(name) == places.of(name) for name in names)


def letters(data: bytes) -> None:
    """Dead letters: one that is read can be passed to a handler, and is written as it was read; names are exact.

    Input: `{` and the rest of a letter, or what follows the folder in the name of a blob.
    """
    if data[:1] == b"{":
        letter = allow(ValueError, parse_letter, data)
        if letter is not None:
            assert len(letter.batch()) == 1
            assert parse_letter(letter.encoded()) == letter
        return
    folder = LetterFolder("prefix", "era")
    name = folder.path + data.decode(errors="replace")
    if found := folder.parse(name):
        request, partition, number = found
        assert (folder.request if request else folder.letter)(partition, number) == name


def gaps(data: bytes) -> None:
    """The gaps in the metadata of a file: each has a size, and they are written as they were read.

    Input: the text.
    """
    found = parse_gaps(data.decode(errors="replace"))
    assert all(0 < len(gap) <= gap.last - gap.first + 1 for gap in found)
    assert sorted(parse_gaps(gap_text(found)), key=repr) == sorted(found, key=repr) or len(found) > RANGES


def _nothing() -> Any:
    """A container that nothing reads."""
