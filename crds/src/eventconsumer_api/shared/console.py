"""The console of all programs: Rich, with its own control sequences, and with clean text between them."""

from collections.abc import Iterable
from typing import Any

import rich.console
from rich.segment import Segment

from eventconsumer_api.shared.terminal import Rendered, clean


class Console(rich.console.Console):  # noqa: TID251 - the only one
    """Prints text and renderables of Rich. Text is no markup, and its words, numbers and colons mean nothing."""

    def __init__(self, **options: Any) -> None:
        """Print to the standard output or standard error at the time, unless `options` of Rich say otherwise."""
        super().__init__(**{"markup": False, "highlight": False, "emoji": False} | options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> Rendered:
        # The last step before the stream, behind the layout: a replaced character costs a table no text.
        cleaned = (each if each.control else Segment(clean(each.text), each.style) for each in buffer)
        return Rendered(super()._render_buffer(cleaned))
