"""What publishers put into events."""

import pyarrow as pa

from eventconsumer_host.body.compiled import CompiledBodyParser
from eventconsumer_host.body.plain import PlainBodyParser
from tests.fuzz.targets.amqp import SEPARATOR
from tests.support import json_oracle
from tests.support.json_bodies import COLUMNS, PATHS

_COLUMNS = [*COLUMNS, *PATHS]
_PARSERS = [CompiledBodyParser(_COLUMNS), PlainBodyParser(_COLUMNS)]


def bodies(data: bytes) -> None:
    """Bodies of events: both parsers give the same columns, and errors where the oracle has some.

    Input: bodies between separators; an empty one is null.
    """
    sent = [body or None for body in data.split(SEPARATOR)]
    compiled, plain = (parser.parse(pa.array(sent, pa.binary())) for parser in _PARSERS)
    compiled.validate(full=True)
    assert compiled.equals(plain), "the parsers differ"
    errors = [bool(json_oracle.row(body, _COLUMNS)[1]) for body in sent]
    assert compiled["_error"].is_valid().to_pylist() == errors
