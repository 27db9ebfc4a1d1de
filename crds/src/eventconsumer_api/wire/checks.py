"""Checks that a program makes in a pod for the plugin: `eventconsumer check`, and that of the schema registry."""

from pydantic import Field

from eventconsumer_api.shared.model import Report
from eventconsumer_api.wire.document import WireDocument


class Check(Report):
    """The result of one check."""

    check: str
    ok: bool | None = Field(description="Null: skipped, because an earlier check failed.")
    detail: str
    remedy: str = ""


class CheckAnswer(WireDocument):
    """What the plugin reads of the output."""

    checks: list[Check]
