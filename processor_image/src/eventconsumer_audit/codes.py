"""The codes of the auditor's findings: level, broken invariant and remedy of each.

Codes are part of the JSON report and never change their meaning. The level of a finding is a property of its code, so
that the same damage always leads to the same exit code.
"""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding, ascending."""

    NOTE = "Note"
    EXPLAINED = "Explained"
    VIOLATION = "Violation"
    UNREADABLE = "Unreadable"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Level, invariant and remedy of a code."""

    level: Level
    invariant: str  # S1 to S11; empty: none
    remedy: str


_RESTORE = "restore the blob from soft delete, blob versions or a backup of the storage account"
_FOREIGN = "find the other program that writes to this container, and move its blobs to another container"
_WRITER = "two writers broke the chain, which hosts never do: do not change the container, and report this"


class Code(StrEnum):
    """Code of a finding."""

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
    CHECKPOINT_STORE_IN_USE = "CheckpointStoreInUse"
    LEASE_OWNER_FOREIGN = "LeaseOwnerForeign"
    OUTPUT_IN_USE = "OutputInUse"
    SEGMENT_WRONG = "SegmentWrong"
    TABLE_FILE_MISSING = "TableFileMissing"
    TABLE_FILE_TWICE = "TableFileTwice"
    TABLE_FILE_WRONG = "TableFileWrong"
    TABLE_POSITION_WRONG = "TablePositionWrong"
    TABLE_LOG_MISSING = "TableLogMissing"
    WATERMARK_WRONG = "WatermarkWrong"
    WATERMARK_DAMAGED = "WatermarkDamaged"
    TOTALS_WRONG = "TotalsWrong"
    GAP = "Gap"
    FOREIGN_GAP = "ForeignGap"
    CHECKPOINT_FOREIGN = "CheckpointForeign"
    ORPHAN = "Orphan"
    ORPHAN_DATA_FILE = "OrphanDataFile"
    QUARANTINED = "Quarantined"
    PREFIX_NESTED = "PrefixNested"
    OUTPUT_MIXED = "OutputMixed"
    RETENTION_PASSED = "RetentionPassed"
    TOMBSTONES = "Tombstones"
    DEAD_LETTERS = "DeadLetters"
    FOREIGN_NAMES = "ForeignNames"
    TABLE_BEHIND = "TableBehind"
    TABLE_FILES_REMOVED = "TableFilesRemoved"
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
_CHECKPOINT = "delete the checkpoint's blob: hosts find their place by the files"

MEANINGS: dict[Code, Meaning] = {
    Code.GENESIS_MISSING: _violation("S2", _RESTORE),
    Code.GENESIS_DAMAGED: _violation("S2", _RESTORE),
    Code.SLOT_MISSING: _violation("S2", f"a file was deleted: {_RESTORE}; delete old files with `eventconsumer prune`"),
    Code.SLOT_BELOW_START: _violation("S2", _FOREIGN),
    Code.SLOT_TWICE: _violation(
        "S4", "keep the file that the batch manifests name, and find the writer of the other file"
    ),
    Code.SLOTS_OVERLAP: _violation("S4", _WRITER),
    Code.SLOT_CHANGED: _violation("S1", f"a file was overwritten: {_RESTORE}"),
    Code.FACTS_WRONG: _violation("S3", _RESTORE),
    Code.GAP_UNRECORDED: _violation(
        "S4", "events are in no file and no reason is recorded: do not change the container, and report this"
    ),
    Code.EPOCH_FELL: _violation("S6", _WRITER),
    Code.CONTENT_CHANGED: _violation("S1", f"a file was overwritten: {_RESTORE}"),
    Code.FILE_DAMAGED: _violation("S3", _RESTORE),
    Code.ROWS_WRONG: _violation("S3", _RESTORE),
    Code.DATA_FILE_MISSING: _violation("S1", f"a data file was deleted: {_RESTORE}"),
    Code.DATA_FILE_CHANGED: _violation("S1", f"a data file was overwritten: {_RESTORE}"),
    Code.CHECKPOINT_ABOVE_END: _violation(
        "S5", "restore the files that were deleted at the chain's end; if the checkpoint was edited, delete its blob"
    ),
    Code.CHECKPOINT_BELOW_START: _violation("S5", _CHECKPOINT),
    Code.CHECKPOINT_OFF_FILES: _violation("S5", _CHECKPOINT),
    Code.LEASE_DAMAGED: _violation("S5", "delete the lease blob: hosts create it again, and find their place by files"),
    Code.EPOCH_BEHIND: _violation("S5", "restart the host that holds the partition"),
    Code.END_ABOVE_HEAD: _violation(
        "S5",
        "the hub does not have the last events of the files: it lost them, or was created again. If they do not come "
        "back, run kubectl eventconsumer hub accept NAME",
    ),
    Code.MANIFEST_MISSING: _violation("S8", _BATCH),
    Code.MANIFEST_DAMAGED: _violation("S8", _BATCH),
    Code.BATCH_WRONG: _violation("S8", _BATCH),
    Code.BATCH_HOLE: _violation("S8", "files were never processed: process them by hand, then report this"),
    Code.BATCHES_OVERLAP: _violation("S8", "files were processed twice: remove the duplicate output, then report this"),
    Code.BATCH_TOO_EARLY: _violation("S8", "a commit record was deleted: restore it from a backup"),
    Code.BATCH_FILE_MISSING: _violation("S8", _RESTORE),
    Code.BATCH_FILE_CHANGED: _violation("S1", f"a file was overwritten after its batch was frozen: {_RESTORE}"),
    Code.FILE_IN_NO_BATCH: _violation("S8", "the file was never processed: process it by hand, then report this"),
    Code.COMMIT_DAMAGED: _violation("S8", _BATCH),
    Code.COMMIT_WRONG: _violation("S8", "compare the batch's output with its manifest"),
    Code.COMMIT_WITHOUT_MANIFEST: _violation("S8", _BATCH),
    Code.COMMIT_TOTALS_WRONG: _violation("S8", "a commit record was changed: restore it from a backup"),
    Code.QUARANTINE_WRONG: _violation(
        "S8", "compare the files in the record with the output to find the missing events, then report this"
    ),
    Code.CHAIN_RECORD_MISSING: _violation("S9", _RESTORE),
    Code.CHAIN_RECORD_DAMAGED: _violation("S9", _RESTORE),
    Code.CHAIN_IN_USE: _violation(
        "S9", "set another spec.sink.prefix in one of the two, or move the chain: kubectl eventconsumer adopt NAME"
    ),
    Code.CHAIN_DIFFERS: _violation(
        "S9", "find the other consumer that wrote here, and set its own spec.sink.prefix or spec.spark.output.path"
    ),
    Code.LEASE_RECORD_MISSING: _violation("S9", "restart a host: it writes the record if the leases fit the hub"),
    Code.LEASE_RECORD_DAMAGED: _violation("S9", _RESTORE),
    Code.CHECKPOINT_STORE_IN_USE: _violation(
        "S9",
        "remove spec.checkpointStore.prefix or set an unused one; "
        "if the chain was moved, run kubectl eventconsumer adopt NAME",
    ),
    Code.LEASE_OWNER_FOREIGN: _violation(
        "S9",
        "stop the program that holds the lease, or set another spec.checkpointStore.prefix; "
        "set spec.checkpointStore.shared: true if both programs share the partitions intentionally",
    ),
    Code.OUTPUT_IN_USE: _violation("S9", "set a different spec.spark.output.path in each EventConsumer"),
    Code.SEGMENT_WRONG: _violation("S9", f"a record of a segment, or the file that ends it, was changed: {_RESTORE}"),
    Code.TABLE_FILE_MISSING: _violation(
        "S10",
        "rows are missing in the table: read them from the file; keep the property delta.deletedFileRetentionDuration, "
        "without which the log forgets removed files, and report this",
    ),
    Code.TABLE_FILE_TWICE: _violation(
        "S10", "streams may have read the rows twice: find the writer in the table's history, then report this"
    ),
    Code.TABLE_FILE_WRONG: _violation(
        "S10", "find the program that wrote this version in the table's history; if it was a host, report this"
    ),
    Code.TABLE_POSITION_WRONG: _violation("S10", "do not change the container, and report this"),
    Code.TABLE_LOG_MISSING: _violation("S10", f"no program can read the table: {_RESTORE}"),
    Code.WATERMARK_WRONG: _violation(
        "S11",
        "a program that relied on the watermark may have missed the events: process that time again, and synchronize "
        "the clocks of the nodes; if files are missing, restore them",
    ),
    Code.WATERMARK_DAMAGED: _violation("S11", "delete the blob: hosts write it again"),
    Code.TOTALS_WRONG: _violation(
        "S11", "delete the blob and restart the leading host: hosts count the files again; then report this"
    ),
    Code.GAP: _explained("events expired before hosts read them: increase the hub's retention or the number of hosts"),
    Code.FOREIGN_GAP: _explained("another program on the same leases processed these events: check its output"),
    Code.CHECKPOINT_FOREIGN: _explained("another program on the same leases moved the checkpoint: check its output"),
    Code.ORPHAN: _explained(_FOREIGN),
    Code.ORPHAN_DATA_FILE: _explained(
        "read only data files that a commit record names; other data files can be deleted while no host runs"
    ),
    Code.QUARANTINED: _explained(
        "Spark could not process them: correct the program or the publisher, and process them by hand; prune keeps them"
    ),
    Code.PREFIX_NESTED: _explained("set a spec.sink.prefix that is not inside the other one"),
    Code.OUTPUT_MIXED: _explained(
        "read each batch at the output that its commit record names; set another spec.spark.output.path, so that all "
        "folders have one name"
    ),
    Code.RETENTION_PASSED: _explained("start the hosts: the next file records these events as a gap"),
    Code.SEGMENT_UNFINISHED: _explained("hub accept was interrupted: run kubectl eventconsumer hub accept NAME --yes"),
    Code.TOMBSTONES: _note(),
    Code.DEAD_LETTERS: _note("user code could not process these events: inspect the dead letters"),
    Code.FOREIGN_NAMES: _note(),
    Code.TABLE_BEHIND: _note(),
    Code.TABLE_FILES_REMOVED: _note(),
    Code.LEASE_MISSING: _note(),
    Code.LEASES_UNREAD: _note(),
    Code.RESOURCE_RENEWED: _note(),
    Code.OUTPUT_UNREAD: _note(),
    Code.EPOCH_UNRAISED: _note(),
    Code.SEGMENT_MISSING: _note(),
    Code.HUB_RENEWED: _note(),
    Code.HUB_UNKNOWN: _note(),
    Code.UNREADABLE: Meaning(Level.UNREADABLE, "", "correct the problem in the message, and run the audit again"),
}
