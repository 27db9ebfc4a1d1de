"""docs/reference/conditions.md, from the code: `python -m docs.generate.conditions > docs/reference/conditions.md`."""

import inspect
import re
from collections.abc import Iterator
from enum import StrEnum

from eventconsumer_api.conditions import ADVISORY, ConditionType, Reason

ABNORMAL = {ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.DATA_GAP}
HEAD = """\
# Conditions

Generated from the code by `python -m docs.generate.conditions`. The conditions are in `status.conditions` of an
EventConsumer. Each has `status`, `reason`, `message`, `lastTransitionTime` and `observedGeneration`. The message names
the field, the cause and the remedy. The conditions follow kstatus: `kubectl wait --for=condition=Ready evc/orders`,
Flux and Argo CD understand them ([GitOps](../how-to/gitops.md)).

| condition | good is | meaning |
|---|---|---|
"""
REASONS = """
## Reasons

Reasons marked *for your information* do not block anything. The same words are reasons of [Events](events.md).

"""


def meanings(of: type[StrEnum]) -> Iterator[tuple[str, str, str]]:
    """Heading, value and comment of each member, from the source."""
    heading = ""
    for line in inspect.getsource(of).splitlines():
        if found := re.match(r"    # (.+)", line):
            heading = found[1]
        if found := re.match(r"    [A-Z_]+ = \"(\w+)\"  # (.+?)(?:  # noqa.*)?$", line):
            yield heading, found[1], found[2]


def sentence(text: str) -> str:
    """With a capital and a full stop; a field at the beginning stands in code style."""
    text = re.sub(r"\b(spec\.[\w.]*\w)", r"`\1`", text)
    return (text if text.startswith("`") else text[0].upper() + text[1:]) + "."


def page() -> str:
    """The page."""
    lines = [
        f"| `{value}` | {'False' if value in ABNORMAL else 'True'} | {sentence(text)} |"
        for _, value, text in meanings(ConditionType)
    ]
    found = HEAD + "\n".join(lines) + "\n" + REASONS.rstrip("\n") + "\n"
    before = ""
    for heading, value, text in meanings(Reason):
        if heading != before:
            found += f"\n**{heading.rstrip('.')}**\n\n| reason | meaning |\n|---|---|\n"
            before = heading
        more = " *For your information.*" if value in ADVISORY else ""
        found += f"| `{value}` | {sentence(text)}{more} |\n"
    return found


if __name__ == "__main__":
    print(page(), end="")
