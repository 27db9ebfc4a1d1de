"""Messages for the tests of files."""

from typing import Any

from azure.eventhub._pyamqp.message import Message


def message(number: int, **parts: Any) -> Message:
    """A message as pyamqp decodes it."""
    annotations = {
        b"x-opt-sequence-number": number,
        b"x-opt-offset": str(number * 100).encode(),
        b"x-opt-enqueued-time": 1_479_314_651_123 + number,
    } | parts.pop("annotations", {})
    return Message(message_annotations=annotations, **{"data": [b"body"], **parts})
