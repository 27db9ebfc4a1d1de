"""What the protocol of a Delta table asks of a program that adds and removes whole files. Pure.

Hosts add files, and prune removes them. Both write the same kind of actions, so one rule applies to both.
"""

from collections.abc import Iterable

# Up to 4: append-only tables, invariants, constraints, change data feed, generated columns. They concern the rows of
# new files, and rows that a program changes: "Writer Version Requirements" in PROTOCOL.md of github.com/delta-io/delta.
# A version without cdc actions is read from its `add` and `remove` actions ("Change Data Files").
WRITER_VERSION = 4
FEATURE_VERSION = 7  # of writers: the features are named
# The features that concern neither the adding nor the removal of whole files ("Valid Feature Names in Table Features").
# Row tracking, column mapping, identity columns and in-commit timestamps need more of each writer.
FEATURES = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "deletionVectors",
        "vacuumProtocolCheck",
        "v2Checkpoint",
        "allowColumnDefaults",
    }
)


def unsupported(writer: object, features: Iterable[str]) -> str:
    """The part of a protocol that needs another writer, for a message; empty: none.

    Args:
        writer: `minWriterVersion` of the table.
        features: Features of the table; they count for version 7.
    """
    if writer == FEATURE_VERSION:
        unknown = sorted(set(features) - FEATURES)
        return f"the table feature {', '.join(unknown)}" if unknown else ""
    return "" if isinstance(writer, int) and writer <= WRITER_VERSION else f"writer version {writer}"
