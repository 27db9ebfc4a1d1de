"""The auditor's report on a container, from the real program in a separate process."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.azurite import AzuriteProcess
from tests.support.waiting import HANG_SECONDS


@dataclass(frozen=True)
class Leases:
    """The location of a consumer's leases."""

    container: str
    prefix: str | None = ""  # None: the default path
    layout: str = "EventProcessorHost"
    consumer_group: str = "$Default"
    shared: bool = False

    def options(self) -> list[str]:
        """As options of the program."""
        given = [
            f"--checkpoint-container={self.container}",
            *([] if self.prefix is None else [f"--checkpoint-prefix={self.prefix}"]),
            f"--checkpoint-layout={self.layout}",
            f"--consumer-group={self.consumer_group}",
        ]
        return [*given, "--shared-leases"] if self.shared else given


def run_program(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `eventconsumer` with these arguments; its output is text."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "eventconsumer_tools", *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env=os.environ | environment,
        check=False,
    )


def run_audit(
    azurite: AzuriteProcess,
    container: str,
    prefix: str,
    leases: Leases | str | None = None,
    *options: str,
    deep: bool = True,
) -> dict[str, Any]:
    """The audit's JSON report; its exit code is the process's.

    Args:
        azurite: The storage account.
        container: Of the files.
        prefix: Their folder.
        leases: The location of the leases, or their container; None: without leases.
        options: More options of the program.
        deep: Read the files too.
    """
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "storage"
        secret.write_text(azurite.connection_string)
        where = Leases(leases).options() if isinstance(leases, str) else leases.options() if leases else []
        result = run_program(
            "audit",
            "--json",
            f"--connection-string-file={secret}",
            f"--container={container}",
            f"--prefix={prefix}",
            *where,
            *(["--deep"] if deep else []),
            *options,
        )
    assert "Traceback" not in result.stderr, result.stderr
    assert result.stdout.startswith("{"), (result.stdout, result.stderr)
    report: dict[str, Any] = json.loads(result.stdout)
    assert report["exitCode"] == result.returncode, report
    return report


def assert_clean(
    azurite: AzuriteProcess,
    container: str,
    prefix: str,
    leases: Leases | str | None = None,
    *,
    allow_gaps: bool = False,
) -> dict[str, Any]:
    """Audit deeply and expect exit code 0, or also 1 (explained gaps, orphans of lost races) with `allow_gaps`.

    Returns:
        The report, for more expectations: `partitions`, `findings`, `counts`.
    """
    report = run_audit(azurite, container, prefix, leases)
    allowed = (0, 1) if allow_gaps else (0,)
    assert report["exitCode"] in allowed, (report["summary"], report["findings"])
    assert report["partitions"], report
    return report
