"""Parses Azure connection strings: `Name=value;Name=value`, with case-insensitive names; values may contain `=`.

Those of Event Hubs and of storage have this form: learn.microsoft.com/azure/event-hubs/event-hubs-get-connection-string
and learn.microsoft.com/azure/storage/common/storage-configure-connection-string.
"""

_QUOTES = "\"'`“”‘’"
_IOT_HUB = "hostname"  # learn.microsoft.com/azure/iot-hub/iot-hub-devguide-messages-read-builtin


class ConnectionStringError(ValueError):
    """The text is not a connection string; the message never contains any of it."""


def parse_connection_string(text: str) -> dict[str, str]:
    """Return the parts by lower-case name.

    Raises:
        ConnectionStringError: A part has no `=`, a name occurs twice, the text is in quotes, is that of an IoT hub, or
            has no parts.
    """
    parts: dict[str, str] = {}
    for position, (name, value) in enumerate(_parts(text), start=1):
        if name.lower() in parts:
            raise ConnectionStringError(f"part {position} repeats a name")
        parts[name.lower()] = value
    if _IOT_HUB in parts and "endpoint" not in parts:
        raise ConnectionStringError(
            "it is that of an IoT hub: copy the Event Hub-compatible endpoint, from Built-in endpoints in the portal"
        )
    return parts


def normal_connection_string(text: str) -> str:
    """The same connection string on one line, without spaces around its parts, for clients that take only this form.

    Raises:
        ConnectionStringError: As `parse_connection_string`.
    """
    parse_connection_string(text)
    return ";".join(f"{name}={value}" for name, value in _parts(text))


def _parts(text: str) -> list[tuple[str, str]]:
    text = text.strip()
    if text[:1] and text[0] in _QUOTES:
        raise ConnectionStringError("it begins with a quote: the value of the Secret must have no quotes")
    found = []
    for position, part in enumerate(filter(None, (piece.strip() for piece in text.split(";"))), start=1):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ConnectionStringError(f"part {position} is not of the form Name=value")
        if any(not each.isprintable() for each in part):
            raise ConnectionStringError(f"part {position} has a line break or another control character inside")
        found.append((name.strip(), value.strip()))
    if not found:
        raise ConnectionStringError("it is empty")
    return found
