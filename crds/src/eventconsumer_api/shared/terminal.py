"""Text of others on a terminal: no character that moves the cursor, hides text or changes the order of reading.

A condition, a blob name or a log line may contain escape sequences, and a terminal carries them out: they can overwrite
what is on the screen, or type for the user. `Guard` is between a program and its terminal, so output that forgets to
clean is clean too. Tables and progress are printed with `eventconsumer_api.shared.console`, whose own sequences pass.

kubectl had this weakness (CVE-2021-25743, https://github.com/kubernetes/kubernetes/issues/101695). It escapes ESC and
carriage returns in tables and in `describe` (https://github.com/kubernetes/kubernetes/pull/112553).
"""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

REPLACEMENT = "\ufffd"
"""The character for each that is replaced; so the length of a text, and its limit, stay the same."""

# C0 without tab and newline, DEL, C1, bidirectional controls, line and paragraph separators, surrogates.
# Source for the bidirectional controls: https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_CONTROLS = re.compile(r"[\t\n]")
# Bold, dim, italic, underlined, six colours, and their ends: neither black nor white, which some backgrounds hide.
# Source: ECMA-48, 8.3.117 Select Graphic Rendition.
_NUMBER = "(?:[0-4]|2[2-4]|3[1-69]|9[1-6])"
_STYLE = re.compile(rf"(\x1b\[(?:{_NUMBER}(?:;{_NUMBER})*)?m)")


def clean(text: str) -> str:
    """Return `text` with each control character, except tab and newline, replaced by U+FFFD."""
    return _CONTROLS.sub(REPLACEMENT, text)


def clean_line(text: str) -> str:
    """Return `text` in one line: as `clean`, and tabs and newlines are spaces."""
    return _LINE_CONTROLS.sub(" ", clean(text))


def clean_but_styles(text: str) -> str:
    """Return `text` as `clean` does, with the sequences for bold text and for colours that are seen on any terminal."""
    parts = _STYLE.split(text)  # every second part is a sequence
    parts[::2] = map(clean, parts[::2])
    return "".join(parts)


class Rendered(str):
    """Text whose control characters are the program's own: the console cleaned the text between them."""

    __slots__ = ()


class Guard:
    """A text stream that cleans all that is written to it, except `Rendered`; on a terminal, styles remain.

    It has no `buffer`, so bytes cannot be written around it.
    """

    def __init__(self, stream: TextIO) -> None:
        """Guard `stream`."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`, cleaned; its length."""
        if not isinstance(text, Rendered):
            text = clean_but_styles(text) if self.isatty() else clean(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all `lines`."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """File descriptor of the stream."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        """Encoding of the stream."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:
        """Treatment of characters that the encoding lacks."""
        return self._stream.errors

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Guard standard output and standard error; as a decorator, for the main function of a program.

    After an error or an exit the guards stay: the interpreter prints the message and the traceback through them.
    """
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    guards = {name: Guard(stream) for name, stream in before.items() if stream is not None}
    for name, guard in guards.items():
        setattr(sys, name, guard)
    yield
    for name, guard in guards.items():
        if getattr(sys, name) is guard:  # a program may have closed it: None
            setattr(sys, name, before[name])
