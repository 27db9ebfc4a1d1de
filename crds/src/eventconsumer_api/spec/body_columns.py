"""Columns that hosts make of the bodies of events (`spec.sink.body`)."""

from dataclasses import dataclass

from eventconsumer_api.spec.column_types import DeltaType
from eventconsumer_api.spec.json_columns import TimeForm


@dataclass(frozen=True, slots=True)
class BodyColumn:
    """A column of a drained file whose values come from the bodies.

    Attributes:
        name: Its name.
        type: Its type, as the Delta table has it. Fields of a struct, elements and values are nullable.
        path: The names of members from the root of the body to the value; not empty.
        form: How the values of TIMESTAMP, also inside of the type, are written.
        required: Whether a body without a value is an error of its row.
        statistics: Whether the Delta table has its bounds in each file.
    """

    name: str
    type: DeltaType
    path: tuple[str, ...]
    form: TimeForm = TimeForm.ISO_8601
    required: bool = False
    statistics: bool = False
