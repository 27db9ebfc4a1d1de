"""Runs the program of the host image in a container that has it, and tells its answers from everything else."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from eventconsumer_cli.errors import Failed
from eventconsumer_cli.kube.exec import Shell, Sink

PROGRAM = "eventconsumer"
_KEPT = 8192  # bytes of stderr


@dataclass(frozen=True)
class Place:
    """A container in which programs of the host image can run."""

    namespace: str
    pod: str
    container: str
    image: str


@dataclass(frozen=True)
class Answer:
    """What a program answered.

    Attributes:
        exit_code: 0 done, 1 nothing found, 2 refused, 3 failed.
        output: What it wrote on stdout.
        errors: The end of what it wrote on stderr.
    """

    exit_code: int
    output: bytes
    errors: bytes


class Tool:
    """The host image's program at one place."""

    def __init__(self, shell: Shell, place: Place) -> None:
        self.place = place
        self._shell = shell

    def run(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes | None = None,
        environment: dict[str, str] | None = None,
        out: Sink | None = None,
        err: Sink | None = None,
    ) -> Answer:
        """Run it until it ends.

        Args:
            arguments: Its command and options.
            stdin: All it gets on stdin.
            environment: Variables set for it.
            out: Gets what it writes on stdout; None: that is kept for the answer alone.
            err: Gets what it writes on stderr; None: this program's stderr.

        Raises:
            CliError: It could not be started, or the connection broke.
            Failed: The image has no such program or command, or it was ended.
        """
        output, errors = bytearray(), bytearray()

        def take_out(data: bytes) -> None:
            output.extend(data) if out is None else out(data)

        def take_err(data: bytes) -> None:
            errors.extend(data)
            del errors[:-_KEPT]
            (err or to_stderr)(data)

        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        command = [*(["env", *variables] if variables else []), PROGRAM, *arguments]
        place = self.place
        code = self._shell.run(
            place.namespace, place.pod, place.container, command, stdin=stdin, out=take_out, err=take_err
        )
        self._judge(code, bytes(errors), arguments)
        return Answer(code, bytes(output), bytes(errors))

    def _judge(self, code: int, errors: bytes, arguments: Sequence[str]) -> None:
        """Refuse exit codes that are none of the program's own answers."""
        name = arguments[0]
        if code in (126, 127) or b"No such command" in errors:
            raise Failed(
                f"the image {self.place.image} has no `{PROGRAM} {name}`: it is older than this plugin",
                "update the operator's image.processor (spec.processing.image: build it anew from the new one)",
            )
        if code == 137:
            raise Failed(
                f"`{PROGRAM} {name}` was killed in pod {self.place.pod}, probably for lack of memory",
                "try again with --new-pod, or raise spec.pods.resources.limits.memory",
            )
        if code not in range(4):
            raise Failed(f"`{PROGRAM} {name}` ended with exit code {code} in pod {self.place.pod}")


def to_stdout(data: bytes) -> None:
    """Pass bytes on as they are."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def to_stderr(data: bytes) -> None:
    """Pass bytes on as they are."""
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()
