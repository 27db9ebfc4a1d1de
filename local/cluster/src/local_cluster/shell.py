"""Run a program and turn its failure into an error that shows the lines that matter."""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from local_cluster.errors import CommandFailed

_TELLING = re.compile(r"^[EF]\d{4} |\b(error|fatal|panic|failed|cannot|denied|refused)\b", re.IGNORECASE)


def telling_lines(text: str, limit: int = 15) -> str:
    """The lines of a log that most likely name the cause.

    Args:
        text: Log text of any program; klog, Go panics and plain text are understood.
        limit: At most this many lines.

    Returns:
        The last `limit` lines that speak of an error, or the last `limit` lines if none does.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return "\n".join((telling or lines)[-limit:])


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    log: Path | None = None,
    timeout: float | None = None,
) -> str:
    """Run a program to its end.

    Args:
        argv: Program and arguments.
        env: Variables added to the environment.
        cwd: Working directory.
        stdin: Text for its standard input; nothing if None.
        log: Appended with both output streams; the result is empty then.
        timeout: Seconds after which the program is killed.

    Returns:
        Its standard output.

    Raises:
        CommandFailed: It returned non-zero, took longer than `timeout`, or does not exist (exit code 127).
    """
    words = [str(word) for word in argv]
    environment = {**os.environ, **env} if env else None
    try:
        if log is None:
            done = subprocess.run(
                words,
                env=environment,
                cwd=cwd,
                input=stdin,
                text=True,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
            output, said = done.stdout, done.stderr + done.stdout
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a+", encoding="utf-8", errors="replace") as sink:
                sink.write(f"$ {' '.join(words)}\n")
                sink.flush()
                start = sink.tell()
                done = subprocess.run(
                    words,
                    env=environment,
                    cwd=cwd,
                    input=stdin,
                    text=True,
                    stdout=sink,
                    stderr=sink,
                    timeout=timeout,
                    check=False,
                )
                sink.seek(start)
                output, said = "", sink.read()
    except FileNotFoundError as error:
        raise CommandFailed(words, 127, f"{words[0]} is not installed ({error})") from None
    except subprocess.TimeoutExpired:
        raise CommandFailed(words, 124, f"no end after {timeout:.0f} s", log) from None
    if done.returncode != 0:
        raise CommandFailed(words, done.returncode, telling_lines(said), log)
    return output


def pipe(source: Sequence[str | Path], sink: Sequence[str | Path]) -> None:
    """Run two programs to their ends; the output of the first is the input of the second.

    Raises:
        CommandFailed: One of them returned non-zero or does not exist (exit code 127).
    """
    first_words, second_words = [str(word) for word in source], [str(word) for word in sink]
    words = [*first_words, "|", *second_words]
    try:
        with (
            tempfile.TemporaryFile("w+", errors="replace") as said,
            subprocess.Popen(first_words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as first,
        ):
            second = subprocess.run(second_words, stdin=first.stdout, capture_output=True, text=True, check=False)
            if first.stdout is not None:
                first.stdout.close()  # a source whose sink has failed ends, too
            code = second.returncode or first.wait()
            said.seek(0)
            lines = f"{said.read()}\n{second.stderr}\n{second.stdout}"
    except FileNotFoundError as error:
        raise CommandFailed(words, 127, f"a program is not installed ({error})") from None
    if code != 0:
        raise CommandFailed(words, code, telling_lines(lines))


def succeeds(argv: Sequence[str | Path]) -> bool:
    """Whether a program exists and returns zero."""
    try:
        run(argv)
    except CommandFailed:
        return False
    return True
