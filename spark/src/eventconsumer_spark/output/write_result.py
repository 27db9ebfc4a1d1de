"""What a program says about the result it wrote: it goes into the batch's commit as it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WriteResult:
    """The result of one batch.

    Attributes:
        rows: Rows of the result.
        output_version: Version of the Delta table that holds them; None where it is no Delta table.
        quarantined_rows: Events that were left out because their body is not what `spark.output.body` says.
        rows_path: Folder of those events; empty where there are none.
        message: Why: the cause of the first of them.
    """

    rows: int
    output_version: int | None = None
    quarantined_rows: int = 0
    rows_path: str = ""
    message: str = ""
