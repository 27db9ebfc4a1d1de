"""The program: options, completion, errors and exit codes, numbers as people read them."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from eventconsumer_api.resource.remedies import command
from eventconsumer_api.shared.plurals import plural
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_cli import completion, text
from eventconsumer_cli.errors import ClusterError, Forbidden, NotFound, RefusedError
from eventconsumer_cli.kube.answers import answer_error
from eventconsumer_cli.kube.kubeconfig import connect
from eventconsumer_cli.main import main
from tests.unit.cli.fakes import FakeCluster, consumer, shop
from tests.unit.cli.running import Shell


def test_every_reason_that_needs_a_person_has_a_next_step() -> None:
    for reason in Reason:
        assert bool(command(reason, "orders", "shop")) is (
            reason not in {Reason.AVAILABLE, Reason.IDLE, Reason.DISABLED, Reason.GAP_ACKNOWLEDGED}
        ), f"{reason}: add its command to COMMANDS of resource/remedies.py; what is as wanted needs none"
    assert command("OfANewerOperator", "orders", "shop") == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("staus",), "No such command"),
        (("status", "--no-such-option"), "No such option"),
        (("status", "orders", "-A"), "-n instead of -A"),
        (("partitions", "-o", "xml"), "xml"),
    ],
)
def test_mistakes_in_the_call_are_3_and_never_2(shell: Shell, words: tuple[str, ...], says: str) -> None:
    seen = shell.run(shop(), *words)
    assert seen.code == 3 and says in seen.err and "Traceback" not in seen.err


def test_help_lists_commands_and_exit_codes(shell: Shell) -> None:
    seen = shell.run(shop(), columns=120)
    assert seen.code == 0
    for word in ("status", "top", "partitions", "hosts", "batches", "logs", "suspend", "resume", "Exit codes:"):
        assert word in seen.out
    assert "--namespace" in shell.run(shop(), "hosts", "--help").out


def test_a_secret_in_an_error_is_not_shown(shell: Shell) -> None:
    class Leaky(FakeCluster):
        def get(self, *_: object) -> dict[str, object]:  # type: ignore[override]
            raise NotFound("Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=c2VjcmV0c2VjcmV0", "remedy")

    seen = shell.run(Leaky(), "status", "orders")
    assert seen.code == 1 and "c2VjcmV0c2VjcmV0" not in seen.err


def completed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert completion.main(words, connect=lambda _: shop()) == 0
    *found, directive = capsys.readouterr().out.split("\n")[:-1]
    assert directive == ":4"
    return [each.split("\t")[0] for each in found if each]


def test_completion_as_kubectl_asks_for_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(capsys, monkeypatch, "par") == ["partitions"]
    assert completed(capsys, monkeypatch, "status", "") == ["orders"]
    assert completed(capsys, monkeypatch, "status", "x") == []
    assert "--namespace" in completed(capsys, monkeypatch, "status", "--n")
    assert completed(capsys, monkeypatch, "top", "--sort", "l") == ["lag"]


def test_http_answers_become_errors_with_a_remedy() -> None:
    assert isinstance(answer_error(403, "GET", "/x", b'{"message": "pods is forbidden"}'), Forbidden)
    assert isinstance(answer_error(401, "GET", "/x", b""), Forbidden)
    assert isinstance(answer_error(422, "PATCH", "/x", b'{"message": "invalid"}'), RefusedError)
    unknown = b'{"message":"the server could not find the requested resource"}'
    missing = answer_error(404, "GET", "/apis/e/eventconsumers", unknown)
    assert "does not serve eventconsumers" in str(missing) and "install" in missing.remedy
    assert "HTTP 500" in str(answer_error(500, "GET", "/x", b""))


def kubeconfig(path: Path, **contexts: str) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(contexts)),
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": name, "context": {"cluster": "c", "user": "u"} | ({"namespace": where} if where else {})}
            for name, where in contexts.items()
        ],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_kubeconfig_is_found_as_kubectl_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubeconfig(tmp_path / "config", one="shop", two="")
    assert connect(path).namespace == "shop"
    assert connect(path, "two").namespace == "default"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}{os.pathsep}{path}")
    assert connect().namespace == "shop"
    with pytest.raises(ClusterError, match="no context 'three'; it has one, two"):
        connect(path, "three")
    with pytest.raises(ClusterError, match="does not exist"):
        connect(tmp_path / "absent")
    for broken in ("{}", "a: [", ""):
        (tmp_path / "broken").write_text(broken)
        with pytest.raises(ClusterError, match="cannot be used"):
            connect(tmp_path / "broken")


def test_a_cluster_that_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = kubeconfig(tmp_path / "config", one="shop")
    assert main(["status", "--kubeconfig", str(path)]) == 4
    said = capsys.readouterr().err
    assert "http://127.0.0.1:9 does not answer" in said and "--kubeconfig" in said
    assert len(said.splitlines()) == 2  # and nothing of the client's own


def test_numbers_as_people_read_them() -> None:
    durations = {None: "-", 0: "0s", 59.4: "59s", 61: "1m1s", 7_265: "2h1m", 90_000: "1d1h"}
    assert {each: text.duration(each) for each in durations} == durations
    sizes = {0: "0 B", 999: "999 B", 1_000: "1.0 kB", 123_456: "123 kB", 999_900: "1.0 MB", 2.5e9: "2.5 GB"}
    assert {each: text.size(each) for each in sizes} == sizes
    rates = {None: "-", 0: "0", 0.25: "0.2", 12.3: "12", 1_234.4: "1,234"}
    assert {each: text.rate(each) for each in rates} == rates
    assert text.age(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 1, tzinfo=UTC)) == "1m"
    assert plural(1, "batch", "batches") == "1 batch" and plural(2, "batch", "batches") == "2 batches"


def test_the_fake_consumer_has_the_fields_of_the_models() -> None:
    assert EventConsumerStatus.model_validate(consumer()["status"]).lag.events == 1234
