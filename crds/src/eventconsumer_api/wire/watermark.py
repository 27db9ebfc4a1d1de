"""The watermark: the time up to which all events of a consumer are in files, and in committed batches.

The leading host rewrites `<prefix>/_watermark.json`, and moves its times only forward. Other programs read it to know
when a day is complete.
"""

from pydantic import AwareDatetime, Field

from eventconsumer_api.wire.batch import Totals
from eventconsumer_api.wire.document import WireDocument


class WatermarkRecord(WireDocument):
    """The content of `_watermark.json`."""

    chain: str = Field(description="Identity of the chain of the files.")
    written_at: AwareDatetime = Field(description="Time of the write, by the clock of the host.")
    files: AwareDatetime = Field(description="All events that were enqueued before this time are in files.")
    segment_id: str = Field(description="The segment of `next`.")
    next: dict[str, int] = Field(
        description="Partition id -> end of the files when `files` was determined. These events have lower numbers, "
        "or are in files of an earlier segment."
    )
    commits: AwareDatetime | None = Field(
        default=None, description="All events that were enqueued before this time are in committed batches."
    )
    batch: int | None = Field(default=None, description="The last of these batches; 0: none was needed.")
    totals: Totals | None = Field(
        default=None,
        description="Totals of the files before `next` and of earlier segments, for the next leader. Absent after "
        "the first batch: manifests of batches have totals.",
    )
    gaps: dict[str, str] | None = Field(
        default=None, description="Partition id -> the last gap by retention in these files, for example 17-20."
    )


def watermark_name(prefix: str) -> str:
    """Blob name of the watermark."""
    return f"{prefix}/_watermark.json"
