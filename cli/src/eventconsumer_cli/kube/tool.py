"""Runs the program of the host image in a container, and separates its results from other failures."""

import sys
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from eventconsumer_cli.errors import Failed
from eventconsumer_cli.kube.exec import Shell

PROGRAM = "eventconsumer"
_KEPT = 8192  # bytes of stderr
_LONGEST_LINE = 65_536  # characters that are held back until the line ends
_NOT_THERE = (b"No such command", b"No module named eventconsumer_")


@dataclass(frozen=True)
class ToolContainer:
    """A container that can run programs of the host image."""

    namespace: str
    pod: str
    container: str
    image: str


@dataclass(frozen=True)
class ProgramResult:
    """The result of a program.

    Attributes:
        exit_code: 0 done, 1 nothing found, 2 refused, 3 failed.
        output: Its stdout; empty where it was printed.
        errors: The end of its stderr.
    """

    exit_code: int
    output: bytes
    errors: bytes


class Tool:
    """A program of the host image, or of another one, in one container."""

    def __init__(self, shell: Shell, place: ToolContainer, program: Sequence[str] = (PROGRAM,)) -> None:
        """Run `program` by `shell` in `place`."""
        self.place = place
        self._shell = shell
        self._program = program

    def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes | None = None,
        environment: dict[str, str] | None = None,
        show: bool = False,
        quiet: bool = False,
    ) -> ProgramResult:
        """Run it until it ends.

        Args:
            arguments: Its command and options.
            stdin: Its complete input.
            environment: Variables set for it.
            show: Print its stdout, instead of returning it.
            quiet: Do not print its stderr.

        Raises:
            CliError: It could not be started, or the connection broke.
            Failed: The image lacks the program or command, or the program was killed.
        """
        output, errors = bytearray(), bytearray()
        out, err = Printer(sys.stdout), Printer(sys.stderr)

        def take_out(data: bytes) -> None:
            out(data) if show else output.extend(data)

        def take_err(data: bytes) -> None:
            errors.extend(data)
            del errors[:-_KEPT]
            if not quiet:
                err(data)

        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        command = [*(["env", *variables] if variables else []), *self._program, *arguments]
        place = self.place
        try:
            code = self._shell.run(
                place.namespace, place.pod, place.container, command, stdin=stdin, out=take_out, err=take_err
            )
        finally:
            out.end()
            err.end()
        self._judge(code, bytes(errors), arguments)
        return ProgramResult(code, bytes(output), bytes(errors))

    def _judge(self, code: int, errors: bytes, arguments: Sequence[str]) -> None:
        """Raise for exit codes that are not results of the program."""
        called = " ".join((*self._program, *arguments[:1]))
        if code in (126, 127) or any(text in errors for text in _NOT_THERE):
            raise Failed(
                f"the image {self.place.image} has no `{called}`: it is older than this plugin",
                "update the operator's images (an image of your own: rebuild it from the new image)",
            )
        if code == 137:
            raise Failed(
                f"`{called}` was killed in pod {self.place.pod}, probably for lack of memory",
                "use --new-pod, or raise spec.pods.resources.limits.memory",
            )
        if code not in range(4):
            raise Failed(f"`{called}` ended with exit code {code} in pod {self.place.pod}")


class Printer:
    """Passes the output of a program on to a stream, in whole lines: so no character and no style is cut."""

    def __init__(self, stream: TextIO) -> None:
        """Print to `stream`, which cleans it: the program's pod may be under the control of an attacker."""
        self._stream = stream
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._begun = ""

    def __call__(self, data: bytes) -> None:
        """Take bytes."""
        lines, newline, self._begun = (self._begun + self._decoder.decode(data)).rpartition("\n")
        if len(self._begun) > _LONGEST_LINE:
            lines, newline, self._begun = lines + newline + self._begun, "", ""
        self._stream.write(lines + newline)
        self._stream.flush()

    def end(self) -> None:
        """Print a last line without a newline, and end its style."""
        reset = "\x1b[0m" if self._stream.isatty() else ""
        self._stream.write(self._begun + self._decoder.decode(b"", final=True) + reset)
        self._stream.flush()
