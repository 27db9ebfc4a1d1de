"""The record of all columns that files below a prefix have beside `file_columns.COLUMNS`.

Before a host writes a file with columns of bodies, each of them is in `<prefix>/_columns.json`. Columns are only added,
so the number of a column, its place in the record, is final, and a name has one type and one meaning for ever: Parquet
files of one folder are read as one table. The metadata of a slot names the columns of its file by these numbers
(`ColumnsOfFile`), and has their statistics.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Self

from pydantic import Field

from eventconsumer_api.shared.model import Report, Since
from eventconsumer_api.spec.body_columns import BodyColumn, ColumnSpec
from eventconsumer_api.spec.json_columns import TimeForm
from eventconsumer_api.wire.document import WireDocument

COLUMNS_MAX = 10_000  # of a record
_TEXT = re.compile(r"(?P<runs>\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*)/(?P<digest>[0-9a-f]{16})")


class RecordedColumn(Report):
    """A column."""

    name: Annotated[str, Since("0.2.0")] = Field(description="Its name; no other column has it, in any case.")
    type: Annotated[str, Since("0.2.0")] = Field(description="Its type, as `column_types.type_text` writes it.")
    path: Annotated[str | None, Since("0.2.0")] = Field(
        default=None, description="The path of its values in the body. Absent: the member with its name."
    )
    form: Annotated[TimeForm, Since("0.2.0")] = Field(
        default=TimeForm.ISO_8601, description="How its times are written in the body."
    )

    @classmethod
    def of(cls, column: BodyColumn) -> Self:
        """A column as the record has it."""
        spec = ColumnSpec.of(column)
        return cls(name=spec.name, type=spec.type, path=spec.path, form=column.form)

    def __str__(self) -> str:
        source = f" of {self.path}" if self.path else ""
        return f"{self.name} {self.type}{source}{'' if self.form is TimeForm.ISO_8601 else f' from {self.form}'}"


class ColumnsRecord(WireDocument):
    """All columns of bodies in files below a prefix, the oldest first."""

    columns: Annotated[list[RecordedColumn], Since("0.2.0")] = Field(
        description="The columns; the place of each is its number, from 0."
    )


Statistics = Mapping[int, tuple[int, Any, Any]]
"""Number of a column in the record -> number of nulls, lower and upper bound as the Delta log has them (None: none)."""


def columns_name(prefix: str) -> str:
    """Blob name of the record."""
    return f"{prefix}/_columns.json"


@dataclass(frozen=True, slots=True)
class ColumnsOfFile:
    """The columns of bodies in a file, as the metadata of its slot has them: `0-3,7/<digest>`.

    Attributes:
        numbers: Their numbers in the record, in the order of the file.
        digest: Of their names and types: a record that was lost and begun again is not taken for this one.
    """

    numbers: tuple[int, ...]
    digest: str

    @classmethod
    def of(cls, record: ColumnsRecord, numbers: Sequence[int]) -> "ColumnsOfFile":
        """Name columns of a record."""
        return cls(tuple(numbers), _digest([record.columns[number] for number in numbers]))

    @classmethod
    def parse(cls, text: str) -> "ColumnsOfFile":
        """The columns in a text.

        Raises:
            ValueError: The text cannot be read.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"the columns {text[:100]!r} cannot be read")
        numbers = tuple(islice(_numbers(match["runs"]), COLUMNS_MAX + 1))
        if not numbers or len(numbers) > COLUMNS_MAX:
            raise ValueError(f"the columns {text[:100]!r} are too many or none")
        return cls(numbers, match["digest"])

    def __str__(self) -> str:
        runs: list[list[int]] = []
        for number in self.numbers:
            if runs and runs[-1][-1] == number - 1:
                runs[-1][1:] = [number]
            else:
                runs.append([number])
        return f"{','.join('-'.join(map(str, run)) for run in runs)}/{self.digest}"

    def among(self, record: ColumnsRecord) -> tuple[RecordedColumn, ...] | None:
        """The columns; None: they are not in this record."""
        if max(self.numbers) >= len(record.columns):
            return None
        found = tuple(record.columns[number] for number in self.numbers)
        return found if _digest(found) == self.digest else None


def parse_statistics(text: str) -> Statistics:
    """The statistics in the metadata of a slot.

    Raises:
        ValueError: The text cannot be read.
    """
    try:
        found = json.loads(text) if text else {}
        each = {int(number): (int(nulls), *(bounds or (None, None))) for number, (nulls, *bounds) in found.items()}
        for facts in each.values():
            if len(facts) != 3 or not all(type(bound) in {str, int, float, type(None)} for bound in facts[1:]):
                raise ValueError("a column has other facts than its nulls and two bounds")
            "".join(map(str, facts)).encode()  # half a character is a UnicodeError, which is a ValueError
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"the statistics cannot be read ({error})") from None
    return each


def _numbers(runs: str) -> Iterator[int]:
    for run in runs.split(","):
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _digest(columns: Sequence[RecordedColumn]) -> str:
    text = "\n".join(f"{each.name} {each.type}" for each in columns)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
