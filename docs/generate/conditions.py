"""docs/reference/conditions.md, from the code: `python -m docs.generate.conditions > docs/reference/conditions.md`."""

import inspect
import re
from collections.abc import Iterator
from enum import StrEnum

from docs.generate.examples import PARTS, SITUATIONS
from docs.generate.messages import Template, templates
from eventconsumer_api.resource.remedies import ABNORMAL_TRUE, REMEDIES
from eventconsumer_api.spec.conditions import ADVISORY, ConditionType, Reason
from eventconsumer_operator import errors
from eventconsumer_operator.conditions.checks import CHECKS
from eventconsumer_storage.causes import CAUSES

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

Reasons marked *for your information* do not block anything. The reasons of [Events](events.md) are the same. The
[status page](../how-to/status-page.md) shows the remedy beside the condition.
"""
MESSAGES = """
## Messages of the operator

The tables show each message once per condition, with example values. Parts of one message are separated by
semicolons. Parts that hosts, Kubernetes and Spark provide are quoted as they are; secrets in them are replaced by
`***`. A message has at most 1024 characters.
"""
PARTS_HEAD = """
### Parts of messages

The messages above contain these parts. Where several pods have the same reason, the message names the first and the
number of the others.
"""
ERRORS = """
### Errors of planning and applying

The operator reports these errors in Stalled and Ready, or in Reconciling where the reason is `Progressing` or missing:
then it retries. Words in *italics* stand for values. Messages of `SpecInvalid` begin with the path of the field.
`Forbidden` and `ObjectRefused` contain the answer of the API server: the method, the object and the cause.

| reason | message |
|---|---|
"""
HOSTS = """
## Problems that hosts report

A host reports a problem with the path of a field, which begins the message: `spec.sink.container: …`. The problem is in
Stalled and Ready; `DeadLetters` and `DecoderMissing` are in Draining, and `DataGap` is in DataGap. Words in *italics*
stand for values.

| reason | message |
|---|---|
"""
CODES = """
### Error codes of storage

Messages of hosts, commands and Spark jobs give the cause and the remedy for these codes. The reason is
`StorageUnauthorized` where the status is 401 or 403, `ContainerInvalid` for a container that does not exist or whose
name is invalid, otherwise `StorageRefused`.

| code | cause | remedy |
|---|---|---|
"""
_HOST_CALLS = {"Problem": 2, "Blocked": 2, "EndpointProblem": 1}
_ERROR_CALLS = {
    "SpecError": 1,
    "NameTaken": 0,
    "Refused": 0,
    "Forbidden": 0,
    "DependencyNotReady": 0,
    "Transient": 0,
}
_ORDER = {reason.value: number for number, reason in enumerate(Reason)}


def meanings(of: type[StrEnum]) -> Iterator[tuple[str, str, str]]:
    """Heading, value and comment of each member, from the source."""
    heading = ""
    for line in inspect.getsource(of).splitlines():
        if found := re.match(r"    # (.+)", line):
            heading = found[1]
        if found := re.match(r"    [A-Z_]+ = \"(\w+)\"  # (.+?)(?:  # noqa.*)?$", line):
            yield heading, found[1], found[2]


def sentence(text: str) -> str:
    """With a capital and a full stop; a field at the beginning is in code style."""
    text = re.sub(r"\b(spec\.[\w.]*\w)", r"`\1`", text)
    return (text if text.startswith("`") else text[0].upper() + text[1:]) + "."


def cell(text: str) -> str:
    """A message in a table, with fields in code style."""
    text = text.replace("|", "\\|").replace("<", "&lt;")
    return re.sub(r"(?<![\w.*`])((?:spec|status)\.\w[\w.]*\w)", r"`\1`", text)


def page() -> str:
    """The page."""
    return "".join([_conditions(), _reasons(), _messages(), _parts(), _errors(), _hosts(), _codes()])


def _conditions() -> str:
    rows = (
        f"| `{value}` | {'False' if value in ABNORMAL_TRUE else 'True'} | {sentence(text)} |\n"
        for _, value, text in meanings(ConditionType)
    )
    return HEAD + "".join(rows)


def _reasons() -> str:
    found, before = REASONS, ""
    for heading, value, text in meanings(Reason):
        if heading != before:
            found += f"\n**{heading.rstrip('.')}**\n\n| reason | meaning | remedy |\n|---|---|---|\n"
            before = heading
        more = " *For your information.*" if value in ADVISORY else ""
        found += f"| `{value}` | {sentence(text)}{more} | {cell(REMEDIES.get(Reason(value), ''))} |\n"
    return found


def _messages() -> str:
    found = MESSAGES
    for kind, check in CHECKS:
        found += f"\n**{kind}**\n\n| status | reason | message |\n|---|---|---|\n"
        findings = dict.fromkeys(check(facts) for facts in SITUATIONS)
        for finding in sorted(findings, key=lambda each: _ORDER[each.reason]):
            found += f"| {finding.status} | `{finding.reason}` | {cell(finding.message)} |\n"
    return found


def _parts() -> str:
    found = PARTS_HEAD
    for heading, examples in PARTS.items():
        found += f"\n**{heading}**\n\n" + "".join(f"- {cell(text)}\n" for text in dict.fromkeys(examples()))
    return found


def _errors() -> str:
    found = [(each.reason or _reason_of(each.name), each.text) for each in _of_operator()]
    return ERRORS + _rows(found)


def _of_operator() -> list[Template]:
    return templates(_ERROR_CALLS, "operator/src", "crds/src")


def _reason_of(error: str) -> str:
    return Reason.SPEC_INVALID if error == "SpecError" else getattr(errors, error).reason or ""


def _hosts() -> str:
    folders = ("crds/src", "storage/src", "processor_image/src")
    return HOSTS + _rows([(each.reason, each.text) for each in templates(_HOST_CALLS, *folders)])


def _codes() -> str:
    return CODES + "".join(
        f"| `{code}` | {sentence(each.text)} | {sentence(each.remedy)} |\n" for code, each in CAUSES.items()
    )


def _rows(found: list[tuple[str, str]]) -> str:
    """Rows by reason; messages without one come last."""
    rows = sorted(found, key=lambda row: (_ORDER.get(row[0].partition(",")[0], len(_ORDER)), row[1]))
    return "".join(f"| {_code(reason)} | {cell(text)} |\n" for reason, text in rows)


def _code(reasons: str) -> str:
    return ", ".join(f"`{each}`" for each in reasons.split(", ")) if reasons else "–"


if __name__ == "__main__":
    print(page(), end="")
