"""Parses Azure connection strings: `Name=value;Name=value`, with case-insensitive names; values may contain `=`."""


class ConnectionStringError(ValueError):
    """The text is not a connection string; the message never contains any of it."""


def parse_connection_string(text: str) -> dict[str, str]:
    """Return the parts by lower-case name.

    Raises:
        ConnectionStringError: A part has no `=`, a name occurs twice, or the text has no parts.
    """
    parts: dict[str, str] = {}
    for position, part in enumerate(filter(None, (piece.strip() for piece in text.strip().split(";"))), start=1):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ConnectionStringError(f"part {position} is not of the form Name=value")
        if name.strip().lower() in parts:
            raise ConnectionStringError(f"part {position} repeats a name")
        parts[name.strip().lower()] = value.strip()
    if not parts:
        raise ConnectionStringError("it is empty")
    return parts
