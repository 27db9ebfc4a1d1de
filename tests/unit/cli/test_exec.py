"""What is said to the container and what its answers mean; the shell's part is run for real."""

import subprocess

import pytest

from eventconsumer_cli.errors import ClusterError, Failed
from eventconsumer_cli.kube.exec import _WithoutPid, exit_code, wrapped


@pytest.mark.parametrize("content", [b"", b"x" * 200_000, "ä\n\x00".encode()])
def test_stdin_ends_though_the_connection_does_not(content: bytes) -> None:
    with subprocess.Popen(
        wrapped(["cat"], content), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        process.stdin.write(content)
        process.stdin.flush()  # and stays open
        assert process.stdout.read() == content
        assert process.wait(30) == 0


@pytest.mark.parametrize("stdin", [None, b"given"])
def test_arguments_arrive_as_they_are_and_the_exit_code_is_the_programs(stdin: bytes | None) -> None:
    program = ["sh", "-c", 'printf "%s|" "$@"; exit 2', "x", "a b", "$HOME", "it's", "*", ""]
    ran = subprocess.run(wrapped(program, stdin), input=stdin or b"", capture_output=True, check=False, timeout=60)
    assert ran.stdout == b"a b|$HOME|it's|*||"
    assert ran.returncode == 2
    assert ran.stderr.strip().isdigit()


def test_the_process_id_is_no_part_of_what_is_printed() -> None:
    seen: list[bytes] = []
    errors = _WithoutPid(seen.append)
    for piece in (b"4", b"2\nfir", b"st\n"):
        errors(piece)
    assert errors.pid == 42 and b"".join(seen) == b"first\n"


def test_what_comes_instead_of_a_process_id_is_kept() -> None:
    seen: list[bytes] = []
    errors = _WithoutPid(seen.append)
    errors(b"sh: not found\nmore\n")
    assert errors.pid is None and b"".join(seen) == b"sh: not found\nmore\n"


def test_exit_codes() -> None:
    assert exit_code(b'{"status":"Success"}', "pod") == 0
    failed = (
        b'{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"2"}]}}'
    )
    assert exit_code(failed, "pod") == 2
    with pytest.raises(Failed, match="no such file"):
        exit_code(b'{"status":"Failure","message":"exec: no such file"}', "pod")
    with pytest.raises(ClusterError, match="may still run"):
        exit_code(b"", "pod")
