"""Runs the program of the host image in a container, and separates its results from other failures."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from eventconsumer_cli.errors import Failed
from eventconsumer_cli.kube.exec import Shell, Sink

PROGRAM = "eventconsumer"
_KEPT = 8192  # bytes of stderr


@dataclass(frozen=True)
class Place:
    """A container that can run programs of the host image."""

    namespace: str
    pod: str
    container: str
    image: str


@dataclass(frozen=True)
class Answer:
    """The result of a program.

    Attributes:
        exit_code: 0 done, 1 nothing found, 2 refused, 3 failed.
        output: Its stdout.
        errors: The end of its stderr.
    """

    exit_code: int
    output: bytes
    errors: bytes


class Tool:
    """The host image's program in one container."""

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
            stdin: Its complete input.
            environment: Variables set for it.
            out: Receives its stdout; None: stdout is only in the result.
            err: Receives its stderr; None: this program's stderr.

        Raises:
            CliError: It could not be started, or the connection broke.
            Failed: The image lacks the program or command, or the program was killed.
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
        """Raise for exit codes that are not results of the program."""
        name = arguments[0]
        if code in (126, 127) or b"No such command" in errors:
            raise Failed(
                f"the image {self.place.image} has no `{PROGRAM} {name}`: it is older than this plugin",
                "update the operator's image.processor (spec.processing.image: rebuild it from the new image)",
            )
        if code == 137:
            raise Failed(
                f"`{PROGRAM} {name}` was killed in pod {self.place.pod}, probably for lack of memory",
                "use --new-pod, or raise spec.pods.resources.limits.memory",
            )
        if code not in range(4):
            raise Failed(f"`{PROGRAM} {name}` ended with exit code {code} in pod {self.place.pod}")


def to_stdout(data: bytes) -> None:
    """Pass bytes on unchanged."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def to_stderr(data: bytes) -> None:
    """Pass bytes on unchanged."""
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()
