"""The answers of a container in which a program runs; tests/contract/cli/test_exec.py runs programs."""

import pytest

from eventconsumer_cli.errors import ClusterError, Failed, Forbidden, NotFound
from eventconsumer_cli.kube.exec import _WithoutPid, exit_code, refused


@pytest.mark.parametrize(
    ("pieces", "pid", "printed"),
    [
        ((b"4", b"2\nfir", b"st\n"), 42, b"first\n"),
        ((b"sh: not found\nmore\n",), None, b"sh: not found\nmore\n"),
    ],
)
def test_only_the_process_id_is_taken_from_the_errors(
    pieces: tuple[bytes, ...], pid: int | None, printed: bytes
) -> None:
    seen: list[bytes] = []
    errors = _WithoutPid(seen.append)
    for piece in pieces:
        errors(piece)
    assert (errors.pid, b"".join(seen)) == (pid, printed)


def test_exit_codes() -> None:
    assert exit_code(b'{"status":"Success"}', "pod") == 0
    causes = b'{"causes":[{"reason":"ExitCode","message":"2"}]}'
    assert exit_code(b'{"status":"Failure","reason":"NonZeroExitCode","details":' + causes + b"}", "pod") == 2
    with pytest.raises(Failed, match="no such file"):
        exit_code(b'{"status":"Failure","message":"exec: no such file"}', "pod")
    with pytest.raises(ClusterError, match="may still run"):
        exit_code(b"", "pod")


@pytest.mark.parametrize(
    ("code", "kind"), [(400, ClusterError), (403, Forbidden), (404, NotFound), (500, ClusterError)]
)
def test_the_status_of_a_refusal_counts_and_no_other_number(code: int, kind: type[Exception]) -> None:
    reason = f"Handshake status {code} Reason -+-+- {{'audit-id': '97cfd0b3-7f5c-4040-9403-4142fe5b4042'}}"
    assert type(refused("shop", "orders-host-0", reason)) is kind
