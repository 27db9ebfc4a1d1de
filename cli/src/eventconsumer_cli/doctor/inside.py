"""Findings of checks that a program in a pod makes."""

from collections.abc import Sequence

from pydantic import ValidationError

from eventconsumer_api.wire.checks import Check, CheckAnswer
from eventconsumer_cli.doctor.findings import Finding, Level
from eventconsumer_cli.kube.tool import Tool


def checks(tool: Tool, arguments: Sequence[str], stdin: bytes | None = None) -> list[Finding]:
    """Run a program that prints its checks as JSON.

    Args:
        tool: Its location.
        arguments: Its arguments.
        stdin: Its input.

    Raises:
        CliError: It could not be run.
    """
    answer = tool.run(arguments, stdin=stdin, quiet=True)
    try:
        return [judge_check(each) for each in CheckAnswer.model_validate_json(answer.output).checks]
    except ValidationError:
        lines = answer.errors.decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else "no message"
        return [Finding("inside", Level.BROKEN, f"the check in pod {tool.place.pod} failed: {why}")]


def judge_check(check: Check) -> Finding:
    """One check of the program's output."""
    levels = {True: Level.OK, False: Level.BROKEN, None: Level.UNKNOWN}
    level = Level.WARNING if check.ok and check.remedy else levels[check.ok]
    return Finding(check.check, level, check.detail, check.remedy)
