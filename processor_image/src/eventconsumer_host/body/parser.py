"""Parsers of bodies: JSON in, typed columns out."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_host import compiled
from eventconsumer_host.body.compiled import CompiledBodyParser
from eventconsumer_host.body.plain import PlainBodyParser


class BodyParser(Protocol):
    """Makes columns of the bodies of events by the table of conversions (`eventconsumer_api.spec.json_columns`).

    Invariants: row n has the values of body n alone, each of them exact or null; a body stops nothing.
    """

    def parse(self, bodies: pa.BinaryArray) -> pa.RecordBatch:
        """The columns in their order, all nullable, and `_error`: null, or a text of at most 512 bytes.

        A value that does not fit is null, and `_error` names its column, the type and the kind of the value, never the
        value; other columns keep theirs. A body that is not one JSON object has nulls and one error. A null body has
        nulls, and an error if a column is required.

        Raises:
            OverflowError: The columns would exceed Arrow's maximum size.
        """


def body_parser(columns: Sequence[BodyColumn]) -> BodyParser:
    """The compiled parser; without the compiled decoder, the plain one, which gives the same.

    Raises:
        ValueError: A type is none of those that bodies can have.
    """
    return CompiledBodyParser(columns) if compiled.find() else PlainBodyParser(columns)
