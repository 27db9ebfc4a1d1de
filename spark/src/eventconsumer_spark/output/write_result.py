"""The result of a program, which becomes part of the batch's commit."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class WriteResult:
    """The result of one batch.

    Attributes:
        rows: Rows of the result.
        output_version: Version of the Delta table that contains them; None: not a Delta table.
        quarantined_rows: Events that were excluded because their body does not match `spark.output.body`.
        rows_path: Folder of those events; empty if there are none.
        message: Cause for the first of them.
        maintenance: Work on the output that no batch depends on, such as a compaction; called after the commit. Its
            failure is logged only.
    """

    rows: int
    output_version: int | None = None
    quarantined_rows: int = 0
    rows_path: str = ""
    message: str = ""
    maintenance: Callable[[], object] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a result without a number of rows, before it is committed.

        Raises:
            ValueError: There is no number, or it is negative.
        """
        if self.rows is None or self.rows < 0:
            raise ValueError(
                f"the program returned {self.rows} as the number of rows of its result: return 0 or more, such as the "
                "result of batch.write_parquet"
            )
