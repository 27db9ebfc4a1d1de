"""A stream that says it is a terminal."""

import io


class Terminal(io.StringIO):
    """Keeps what is written."""

    def isatty(self) -> bool:
        """Always."""
        return True
