"""Blobs that other programs may write."""

from typing import Any

from pydantic import ValidationError

from eventconsumer_api.batch import BatchClaim, BatchCommit, BatchManifest
from eventconsumer_api.identity import ChainRecord, HubSegment, LeaseRecord, OutputRecord
from eventconsumer_api.watermark import WatermarkRecord
from eventconsumer_processor.audit import leases as audited
from eventconsumer_processor.audit.batches import BatchAudit
from eventconsumer_processor.audit.identity import IdentityAudit
from eventconsumer_processor.audit.model import Findings
from eventconsumer_processor.audit.watermark import WatermarkAudit
from eventconsumer_processor.errors import LeaseInvalid
from eventconsumer_processor.host.replay import parse_ends
from eventconsumer_processor.lease import azuresdk, eventprocessorhost
from eventconsumer_processor.sink.slots import parse_genesis
from tests.fuzz.targets.allow import allow, same


def leases(data: bytes) -> None:
    """Leases: one that is read can be written, and is read again as it was; the audit reads the same bytes.

    Input: `{` and the rest of a body in the layout EventProcessorHost, or lines of metadata, `key=value`.
    """
    if data[:1] == b"{":
        audited.legacy("0", "blob", data, held=False, etag="")
        found = allow(LeaseInvalid, eventprocessorhost.decode, data, "0")
        for java in (True, False) if found else ():
            assert eventprocessorhost.decode(eventprocessorhost.encode(found, java=java), "0") == found
            eventprocessorhost.dialect_of(data)
        return
    lines = (line.partition("=") for line in data.decode(errors="replace").split("\n"))
    metadata = {key: value for key, _, value in lines}
    owner = azuresdk.ownership(metadata)
    assert azuresdk.ownership(owner.encode()) == owner or not owner.ours
    azuresdk.offset_without_number(metadata)
    checkpoint = allow(LeaseInvalid, azuresdk.decode_checkpoint, metadata)
    if checkpoint:
        assert azuresdk.decode_checkpoint(azuresdk.encode_checkpoint(checkpoint)) == checkpoint
    facts = audited.ownership(audited.LeaseFacts("0", "blob"), metadata, etag="")
    audited.checkpoint(facts, "blob", metadata)


def records(data: bytes) -> None:
    """Records in storage: each parser gives a record that is written as it was read, or one kind of error.

    Input: JSON; all parsers read it.
    """
    for model in (
        BatchManifest, BatchClaim, BatchCommit, ChainRecord, HubSegment, LeaseRecord, OutputRecord, WatermarkRecord
    ):  # fmt: skip
        found = allow(ValidationError, model.model_validate_json, data)
        if found is not None:
            same(found)
    allow(ValueError, parse_genesis, data)
    allow(ValueError, parse_ends, data)
    findings = Findings()
    identity = IdentityAudit(_nothing(), "prefix", None, findings)
    watermark = WatermarkAudit(findings, identity)
    batches = BatchAudit(findings, identity, watermark)
    watermark.record("blob", data, ["incarnation"])
    batches.manifest(1, "blob", data)
    batches.commits.add(1, "blob", data)
    identity.claim(1, "blob", data)


def _nothing() -> Any:
    """A container that nothing reads."""
