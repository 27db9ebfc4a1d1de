"""docs/reference/conditions.md, from the code: `python -m tests.conditionsdoc > docs/reference/conditions.md`."""

import inspect
import re
from collections.abc import Iterator
from enum import StrEnum

from eventconsumer_api.conditions import ADVISORY, ConditionType, Reason

ABNORMAL = {ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.DATA_GAP}
HEAD = """\
# Conditions

Made from the code by `python -m tests.conditionsdoc`. They stand in `status.conditions` of an EventConsumer; each has
`status`, `reason`, `message`, `lastTransitionTime` and `observedGeneration`. The message says which field is concerned
and what to write. They keep to kstatus: `kubectl wait --for=condition=Ready evc/orders` works, and so do Flux and Argo
CD ([GitOps](../how-to/gitops.md)).

| condition | good is | meaning |
|---|---|---|
"""
REASONS = """
## Reasons

Those marked *for your information* need a look, though nothing waits for a person. The same words are reasons of
[Events](events.md).

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
