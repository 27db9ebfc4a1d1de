"""One JSON document (RFC 8259), read strictly: the whole body, each name once in its object, numbers as written.

No call is recursive, so the depth of a document is bounded by the table alone.
"""

import re
from collections.abc import Mapping
from typing import Any

from eventconsumer_api.spec import json_columns as table
from eventconsumer_host.body.plan import Fault


class Number(str):
    """A number of a document, as it is written."""

    __slots__ = ()


class Unreadable(Exception):
    """A body is no document; its argument is the `Fault`."""


_TOKEN = re.compile(
    r"""[ \t\n\r]*+(?:
        "((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"
        |(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
        |(true|false|null)
        |([][{}:,])
        |(\Z))""",
    re.VERBOSE,
)
_STRING, _NUMBER, _WORD, _MARK, _END = range(1, 6)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_SHORT: Mapping[str, str] = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}


def read(body: bytes) -> Any:
    """The document: dict, list, str, Number, bool or None.

    Raises:
        Unreadable: It is none, or has a name twice, or half of a surrogate pair.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Unreadable(Fault.NO_UTF8) from None
    return _Reader(text).document()


class _Reader:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._faults: set[Fault] = set()  # of a text that is a document
        self._open: list[Any] = [[]]  # containers without an end so far, below one for the document

    def document(self) -> Any:
        root = self._open[0]
        self._put(None, *self._next())
        while len(self._open) > 1:
            self._member()
        if self._next()[0] != _END:
            raise Unreadable(Fault.NO_DOCUMENT)
        if self._faults:
            raise Unreadable(min(self._faults))
        return root[0]

    def _member(self) -> None:
        """Read on in the innermost container: its end, or its next value."""
        current = self._open[-1]
        kind, part = self._next()
        if kind == _MARK and part == ("]" if isinstance(current, list) else "}"):
            self._open.pop()
            return
        if current:
            _need(kind == _MARK and part == ",")
            kind, part = self._next()
        name = None
        if isinstance(current, dict):
            _need(kind == _STRING and self._next() == (_MARK, ":"))
            name = self._string(part)
            _need(len(name) <= table.NAME_LENGTH_MAX)
            if name in current:
                self._faults.add(Fault.TWICE)
            kind, part = self._next()
        self._put(name, kind, part)

    def _put(self, name: str | None, kind: int, part: str) -> None:
        """Put a value, or the begin of one, into the innermost container."""
        value: Any
        if kind == _STRING:
            value = self._string(part)
        elif kind == _NUMBER:
            _need(len(part) <= table.NUMBER_DIGITS_MAX or sum(map(str.isdigit, part)) <= table.NUMBER_DIGITS_MAX)
            value = Number(part)
        elif kind == _WORD:
            value = _WORDS[part]
        else:
            _need(kind == _MARK and part in "[{" and len(self._open) <= table.DEPTH_MAX)
            value = [] if part == "[" else {}
        current = self._open[-1]
        if name is None:
            current.append(value)
        else:
            current[name] = value
        if kind == _MARK:
            self._open.append(value)

    def _next(self) -> tuple[int, str]:
        """The next token: its kind and its text."""
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise Unreadable(Fault.NO_DOCUMENT)
        self._at = found.end()
        kind = found.lastindex or _END
        return kind, found[kind]

    def _string(self, quoted: str) -> str:
        if "\\" not in quoted:
            return quoted
        text = _ESCAPE.sub(_character, quoted)
        if "\\u" in quoted:
            try:
                return text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                self._faults.add(Fault.HALF_PAIR)
        return text


def _need(fits: bool) -> None:
    if not fits:
        raise Unreadable(Fault.NO_DOCUMENT)


def _character(escape: re.Match[str]) -> str:
    code, short = escape.groups()
    return chr(int(code, 16)) if code else _SHORT.get(short, short)
