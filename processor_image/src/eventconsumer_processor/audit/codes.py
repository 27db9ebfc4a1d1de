"""Everything that the auditor can find: its level, the invariant it breaks, and what to do about it.

Codes are part of the JSON report and never change their meaning. The level of a finding is a property of its code, so
that the same damage always leads to the same exit code.
"""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is, rising."""

    NOTE = "Note"
    EXPLAINED = "Explained"
    VIOLATION = "Violation"
    UNREADABLE = "Unreadable"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code stands for."""

    level: Level
    invariant: str  # S1 to S9; empty where no invariant is concerned
    remedy: str


_RESTORE = "restore the blob as it was, from soft delete, versions or a backup of the storage account"
_FOREIGN = "find out what else writes to this container, and move it elsewhere"
_WRITER = "two writers broke the chain, which the hosts never do: keep the container as it is and report this"


class Code(StrEnum):
    """What was found."""

    GENESIS_MISSING = "GenesisMissing"
    GENESIS_DAMAGED = "GenesisDamaged"
    SLOT_MISSING = "SlotMissing"
    SLOT_BELOW_START = "SlotBelowStart"
    SLOT_TWICE = "SlotTwice"
    SLOTS_OVERLAP = "SlotsOverlap"
    SLOT_CHANGED = "SlotChanged"
    FACTS_WRONG = "FactsWrong"
    GAP_UNRECORDED = "GapUnrecorded"
    EPOCH_FELL = "EpochFell"
    CONTENT_CHANGED = "ContentChanged"
    FILE_DAMAGED = "FileDamaged"
    ROWS_WRONG = "RowsWrong"
    DATA_FILE_MISSING = "DataFileMissing"
    DATA_FILE_CHANGED = "DataFileChanged"
    CHECKPOINT_ABOVE_END = "CheckpointAboveEnd"
    CHECKPOINT_BELOW_START = "CheckpointBelowStart"
    CHECKPOINT_OFF_FILES = "CheckpointOffFiles"
    LEASE_DAMAGED = "LeaseDamaged"
    EPOCH_BEHIND = "EpochBehind"
    END_ABOVE_HEAD = "EndAboveHead"
    MANIFEST_MISSING = "ManifestMissing"
    MANIFEST_DAMAGED = "ManifestDamaged"
    BATCH_WRONG = "BatchWrong"
    BATCH_HOLE = "BatchHole"
    BATCHES_OVERLAP = "BatchesOverlap"
    BATCH_TOO_EARLY = "BatchTooEarly"
    BATCH_FILE_MISSING = "BatchFileMissing"
    BATCH_FILE_CHANGED = "BatchFileChanged"
    FILE_IN_NO_BATCH = "FileInNoBatch"
    COMMIT_DAMAGED = "CommitDamaged"
    COMMIT_WRONG = "CommitWrong"
    COMMIT_TOTALS_WRONG = "CommitTotalsWrong"
    COMMIT_WITHOUT_MANIFEST = "CommitWithoutManifest"
    QUARANTINE_WRONG = "QuarantineWrong"
    CHAIN_RECORD_MISSING = "ChainRecordMissing"
    CHAIN_RECORD_DAMAGED = "ChainRecordDamaged"
    CHAIN_IN_USE = "ChainInUse"
    CHAIN_DIFFERS = "ChainDiffers"
    LEASE_RECORD_MISSING = "LeaseRecordMissing"
    LEASE_RECORD_DAMAGED = "LeaseRecordDamaged"
    LEASE_STORE_IN_USE = "LeaseStoreInUse"
    LEASE_OWNER_FOREIGN = "LeaseOwnerForeign"
    OUTPUT_IN_USE = "OutputInUse"
    SEGMENT_WRONG = "SegmentWrong"
    GAP = "Gap"
    FOREIGN_GAP = "ForeignGap"
    CHECKPOINT_FOREIGN = "CheckpointForeign"
    ORPHAN = "Orphan"
    ORPHAN_DATA_FILE = "OrphanDataFile"
    QUARANTINED = "Quarantined"
    PREFIX_NESTED = "PrefixNested"
    RETENTION_PASSED = "RetentionPassed"
    TOMBSTONES = "Tombstones"
    DEAD_LETTERS = "DeadLetters"
    FOREIGN_NAMES = "ForeignNames"
    LEASE_MISSING = "LeaseMissing"
    LEASES_UNREAD = "LeasesUnread"
    RESOURCE_RENEWED = "ResourceRenewed"
    OUTPUT_UNREAD = "OutputUnread"
    EPOCH_UNRAISED = "EpochUnraised"
    SEGMENT_MISSING = "SegmentMissing"
    SEGMENT_UNFINISHED = "SegmentUnfinished"
    HUB_RENEWED = "HubRenewed"
    HUB_UNKNOWN = "HubUnknown"
    UNREADABLE = "Unreadable"


def _violation(invariant: str, remedy: str) -> Meaning:
    return Meaning(Level.VIOLATION, invariant, remedy)


def _explained(remedy: str) -> Meaning:
    return Meaning(Level.EXPLAINED, "", remedy)


def _note(remedy: str = "") -> Meaning:
    return Meaning(Level.NOTE, "", remedy)


_BATCH = "restore the manifest or record from a backup; do not write one by hand"

MEANINGS: dict[Code, Meaning] = {
    Code.GENESIS_MISSING: _violation("S2", _RESTORE),
    Code.GENESIS_DAMAGED: _violation("S2", _RESTORE),
    Code.SLOT_MISSING: _violation("S2", f"a file was deleted: {_RESTORE}; `eventconsumer prune` cleans up without it"),
    Code.SLOT_BELOW_START: _violation("S2", _FOREIGN),
    Code.SLOT_TWICE: _violation("S4", "keep the file that the batch manifests name, and find out who wrote the other"),
    Code.SLOTS_OVERLAP: _violation("S4", _WRITER),
    Code.SLOT_CHANGED: _violation("S1", f"a file was overwritten: {_RESTORE}"),
    Code.FACTS_WRONG: _violation("S3", _RESTORE),
    Code.GAP_UNRECORDED: _violation(
        "S4", "events are in no file and nothing says why: keep the container, report this"
    ),
    Code.EPOCH_FELL: _violation("S6", _WRITER),
    Code.CONTENT_CHANGED: _violation("S1", f"a file was overwritten: {_RESTORE}"),
    Code.FILE_DAMAGED: _violation("S3", _RESTORE),
    Code.ROWS_WRONG: _violation("S3", _RESTORE),
    Code.DATA_FILE_MISSING: _violation("S1", f"a data file was deleted: {_RESTORE}"),
    Code.DATA_FILE_CHANGED: _violation("S1", f"a data file was overwritten: {_RESTORE}"),
    Code.CHECKPOINT_ABOVE_END: _violation(
        "S5", "restore files that were deleted at the end of the chain; if the checkpoint was edited, delete its blob"
    ),
    Code.CHECKPOINT_BELOW_START: _violation("S5", "delete the checkpoint's blob: the files know where to go on"),
    Code.CHECKPOINT_OFF_FILES: _violation("S5", "delete the checkpoint's blob: the files know where to go on"),
    Code.LEASE_DAMAGED: _violation("S5", "delete the lease blob: it is made again, and the files know where to go on"),
    Code.EPOCH_BEHIND: _violation("S5", "restart the host that holds the partition"),
    Code.END_ABOVE_HEAD: _violation(
        "S5",
        "the hub does not have the last events of the files: it lost them, or was created again. Where it does not "
        "come back: kubectl eventconsumer hub accept NAME",
    ),
    Code.MANIFEST_MISSING: _violation("S8", _BATCH),
    Code.MANIFEST_DAMAGED: _violation("S8", _BATCH),
    Code.BATCH_WRONG: _violation("S8", _BATCH),
    Code.BATCH_HOLE: _violation("S8", "files were never processed: process them by hand, then report this"),
    Code.BATCHES_OVERLAP: _violation("S8", "files were processed twice: remove the doubled output, then report this"),
    Code.BATCH_TOO_EARLY: _violation("S8", "a commit record was deleted: restore it from a backup"),
    Code.BATCH_FILE_MISSING: _violation("S8", _RESTORE),
    Code.BATCH_FILE_CHANGED: _violation("S1", f"a file was overwritten after its batch was frozen: {_RESTORE}"),
    Code.FILE_IN_NO_BATCH: _violation("S8", "the file was never processed: process it by hand, then report this"),
    Code.COMMIT_DAMAGED: _violation("S8", _BATCH),
    Code.COMMIT_WRONG: _violation("S8", "compare the batch's output with its manifest"),
    Code.COMMIT_WITHOUT_MANIFEST: _violation("S8", _BATCH),
    Code.COMMIT_TOTALS_WRONG: _violation("S8", "a commit record was changed: restore it from a backup"),
    Code.QUARANTINE_WRONG: _violation(
        "S8", "find out from the files that the record names what the output lacks, then report this"
    ),
    Code.CHAIN_RECORD_MISSING: _violation("S9", _RESTORE),
    Code.CHAIN_RECORD_DAMAGED: _violation("S9", _RESTORE),
    Code.CHAIN_IN_USE: _violation(
        "S9", "give one of the two another spec.sink.prefix, or move the chain: kubectl eventconsumer adopt NAME"
    ),
    Code.CHAIN_DIFFERS: _violation(
        "S9", "find out which other consumer wrote here, and give it another spec.sink.prefix or spec.spark.output.path"
    ),
    Code.LEASE_RECORD_MISSING: _violation("S9", "restart a host: it writes the record where the leases fit the hub"),
    Code.LEASE_RECORD_DAMAGED: _violation("S9", _RESTORE),
    Code.LEASE_STORE_IN_USE: _violation(
        "S9",
        "remove spec.leaseStore.prefix or set one that nothing uses; "
        "for a chain that was moved: kubectl eventconsumer adopt NAME",
    ),
    Code.LEASE_OWNER_FOREIGN: _violation(
        "S9",
        "stop the program that holds the lease, or give it another spec.leaseStore.prefix; "
        "set spec.leaseStore.shared: true if it is meant to share the partitions",
    ),
    Code.OUTPUT_IN_USE: _violation("S9", "give each EventConsumer its own spec.spark.output.path"),
    Code.SEGMENT_WRONG: _violation("S9", f"a record of a segment, or the file that ends it, was changed: {_RESTORE}"),
    Code.GAP: _explained("the hub's retention was faster than the hosts: raise the retention or the number of hosts"),
    Code.FOREIGN_GAP: _explained("another program on the same leases processed these events: look for them there"),
    Code.CHECKPOINT_FOREIGN: _explained("another program on the same leases moved the checkpoint: look there"),
    Code.ORPHAN: _explained(_FOREIGN),
    Code.ORPHAN_DATA_FILE: _explained(
        "read data files by their commit records only; those without one may be deleted once no host runs"
    ),
    Code.QUARANTINED: _explained(
        "Spark could not process them: correct the program or the publisher, and process them by hand; they stay"
    ),
    Code.PREFIX_NESTED: _explained("give one of the two a spec.sink.prefix outside of the other's"),
    Code.RETENTION_PASSED: _explained("start the hosts: the next file records these events as a gap"),
    Code.SEGMENT_UNFINISHED: _explained("run kubectl eventconsumer hub accept NAME --yes again: it was interrupted"),
    Code.TOMBSTONES: _note(),
    Code.DEAD_LETTERS: _note("look at the dead letters: your code could not process these events"),
    Code.FOREIGN_NAMES: _note(),
    Code.LEASE_MISSING: _note(),
    Code.LEASES_UNREAD: _note(),
    Code.RESOURCE_RENEWED: _note(),
    Code.OUTPUT_UNREAD: _note(),
    Code.EPOCH_UNRAISED: _note(),
    Code.SEGMENT_MISSING: _note(),
    Code.HUB_RENEWED: _note(),
    Code.HUB_UNKNOWN: _note(),
    Code.UNREADABLE: Meaning(Level.UNREADABLE, "", "correct what the message names, and audit again"),
}
