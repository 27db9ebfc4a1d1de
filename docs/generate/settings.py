"""docs/reference/settings.md, from the code: `python -m docs.generate.settings > docs/reference/settings.md`."""

import argparse
import re
from collections.abc import Iterator, Sequence
from unittest.mock import patch

from docs.generate.pages import ROOT
from eventconsumer_api.kube import labels
from eventconsumer_operator.settings import parse_settings

DEPLOYMENT = ROOT / "helm/eventconsumer/templates/deployment.yaml"
HEAD = """\
# Settings

Generated from the code by `python -m docs.generate.settings`. Settings of the administrator; settings of users are in
the [resource](eventconsumer.md). With Helm, set the [chart's values](chart.md); without Helm, set the flags.

## The operator: `eventconsumer-operator`

| flag | default | value of the chart | meaning |
|---|---|---|---|
"""
ENVIRONMENT = f"""
`POD_NAMESPACE` in its environment is its own namespace; without it, the namespace of its service account.

## Hosts

A host has no flags: the operator writes its configuration, from the resource, into a ConfigMap. In its environment:

| variable | default | meaning |
|---|---|---|
| `EVENTCONSUMER_CONFIG` | `{labels.CONFIG_FILE}` | File of the configuration. |
| `{labels.CONFIG_ENV}` | | The configuration itself, instead of the file, for probes and replays. |
| `EVENTCONSUMER_PORT` | `{labels.HOST_PORT}` | Port of `/healthz`, `/status` and `/metrics`. |
| `POD_NAME`, `POD_UID` | host name, random | Parts of the owner id in leases. |
| `AZURE_TENANT_ID`, `AZURE_FEDERATED_TOKEN_FILE` | | Set by the workload identity webhook. |

## Spark drivers

| variable | meaning |
|---|---|
| `{labels.BATCH_JOB_ENV}` | The request of the operator, as JSON, without secrets. |
| `{labels.BATCH_MANIFEST_ENV}` | URL of the batch's manifest, for programs in other languages than Python. |
"""


class _Found(Exception):
    """Raised with the parser, instead of parsing."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def parser() -> argparse.ArgumentParser:
    """The operator's parser of flags."""

    def found(self: argparse.ArgumentParser, _: object) -> None:
        raise _Found(self)

    try:
        with patch.object(argparse.ArgumentParser, "parse_args", found):
            parse_settings([], {})
    except _Found as caught:
        return caught.parser
    raise AssertionError("parse_settings did not call the parser")


def values() -> dict[str, str]:
    """Flag -> value of the chart that sets it, as the Deployment's template says."""
    found: dict[str, str] = {}
    scopes: list[tuple[str, str]] = []  # a block of the template: its keyword and its value
    for line in DEPLOYMENT.read_text().partition("args:")[2].partition("ports:")[0].splitlines():
        if action := re.search(r"\{\{- (if|else if|range|with|end)\b(.*)\}\}", line):
            if action[1] in {"end", "else if"}:
                scopes.pop()
            if action[1] != "end":
                scopes.append((action[1], _value(action[2], scopes)))
        elif flag := re.search(r"- (--[a-z-]+)(?:=(.*))?", line):
            inside = "".join(re.findall(r"\{\{(.*)\}\}", flag[2] or ""))
            value = _value(inside, scopes) or next((value for _, value in reversed(scopes) if value), "")
            if value:
                found.setdefault(flag[1], value)
    return found


def _value(expression: str, scopes: Sequence[tuple[str, str]]) -> str:
    """The value of the chart in an expression of a template; empty for none."""
    name = re.search(r"(?<!\w)\.(Values\.)?([a-z][\w.]*)", expression)
    around = next((f"{value}." for opened, value in reversed(scopes) if opened == "with"), "")
    return "" if name is None else name[2] if name[1] else around + name[2]


def flags() -> Iterator[tuple[str, str, str, str]]:
    """Flag, default, value of the chart, meaning."""
    of_chart = values()
    for action in parser()._actions:
        name = action.option_strings[-1]
        if name == "--help" or action.help is argparse.SUPPRESS:
            continue
        default = (
            "required" if action.required else "" if action.default in (None, [], False) else f"`{action.default}`"
        )
        choices = f" One of {', '.join(f'`{choice}`' for choice in action.choices)}." if action.choices else ""
        text = (action.help or "").rstrip(".")
        value = f"`{of_chart[name]}`" if name in of_chart else ""
        yield f"`{name}`", "required" if action.required else default, value, text[0].upper() + text[1:] + "." + choices


def page() -> str:
    """The page."""
    rows = [f"| {' | '.join(row)} |" for row in flags()]
    return HEAD + "\n".join(rows) + "\n" + ENVIRONMENT


if __name__ == "__main__":
    print(page(), end="")
