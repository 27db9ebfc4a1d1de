"""Commands that change something: plan, question, change; and files are here, not in the pod."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from eventconsumer_api.commands import COMMANDS, Command
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER
from tests.unit.cli.inside import Inside, cluster_with
from tests.unit.cli.running import Shell

SAVED = json.dumps({"version": 1, "kind": "Checkpoints", "checkpoints": []})


class Checkpoints:
    """The program: refuses while `held`, shows a plan, and does it with --yes."""

    def __init__(self, *, held: bool = False) -> None:
        self.held = held
        self.done: list[list[str]] = []

    def __call__(self, command: Sequence[str], stdin: bytes | None) -> tuple[int, str, str]:
        words = list(command[1:])
        if words[:2] == ["checkpoint", "export"]:
            return 0, SAVED, ""
        if self.held:
            return 2, "refused\n", ""
        if "--yes" in words:
            self.done.append(words)
            return 0, "done\n", ""
        return 0, "plan\n", ""


@pytest.fixture
def agreed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody is there and says yes; the questions."""
    questions: list[str] = []
    monkeypatch.setattr(
        "eventconsumer_cli.output.Output.confirm", lambda _, question: bool(questions.append(question)) or True
    )
    return questions


SET = ("checkpoint", "set", "orders", "-p", "0", "--sequence-number", "99")


def test_a_plan_is_shown_before_it_is_done(shell: Shell, agreed: list[str]) -> None:
    program = Checkpoints()
    cluster = cluster_with(program, hosts=False)
    seen = shell.run(cluster, *SET)
    assert (seen.code, seen.out) == (0, "plan\ndone\n")
    assert agreed == ["Move the checkpoint of partition 0 of orders?"]
    expected = ["checkpoint", "set", "--partition", "0", "--sequence-number", "99", "--yes"]
    assert program.done == [expected]
    assert len(cluster.made) == 1, "plan and change in one pod"


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.in_plugin], ids=lambda each: each.path)
def test_without_a_terminal_only_yes_changes_something(shell: Shell, tmp_path: Path, command: Command) -> None:
    program, file = Checkpoints(), tmp_path / "saved"
    file.write_text(SAVED)
    needed = {
        "certify": ["--consumer-group", "checks"],
        "migrate": ["--container", "old"],
        "checkpoint set": ["-p", "0", "--offset", "1"],
        "checkpoint import": ["-f", str(file)],
        "deadletters show": ["-p", "0", "--sequence-number", "1"],
        "deadletters redrive": ["--all"],
        "deadletters drop": ["--all"],
    }
    words = [*command.path.split(), "orders", *needed.get(command.path, [])]
    seen = shell.run(cluster_with(program), *words)
    assert (seen.code, program.done) == (2 if command.changes else 0, [])
    if not command.changes:
        assert shell.run(cluster_with(program), *words, "--yes").code == 3
        return
    assert seen.out == "plan\n" and "--yes" in seen.err and "nothing was changed" in seen.err
    for done, yes in enumerate(("-y", "--yes"), 1):
        seen = shell.run(cluster_with(program), *words, yes)
        assert (seen.code, seen.out, len(program.done)) == (0, "done\n", done)


def test_a_refusal_asks_no_question_and_names_the_remedy(shell: Shell, agreed: list[str]) -> None:
    seen = shell.run(cluster_with(Checkpoints(held=True)), *SET)
    assert (seen.code, seen.out, agreed) == (2, "refused\n", [])
    assert "kubectl eventconsumer suspend orders" in seen.err


@pytest.mark.parametrize("place", [(), ("--offset", "1", "--sequence-number", "1")])
def test_exactly_one_place_is_needed(shell: Shell, place: tuple[str, ...]) -> None:
    cluster = cluster_with(Checkpoints())
    assert shell.run(cluster, "checkpoint", "set", "orders", "-p", "0", *place).code == 3
    assert cluster.calls == []


def test_export_and_import(shell: Shell, tmp_path: Path) -> None:
    program, file = Checkpoints(), tmp_path / "saved.json"
    failed = shell.run(cluster_with(lambda *_: (3, "", "no storage\n")), "checkpoint", "export", "-f", str(file))
    assert failed.code == 3 and not file.exists()
    cluster = cluster_with(program)
    for words in (("import", "-f", str(file)), ("export", "-f", str(tmp_path / "no" / "folder"))):
        seen = shell.run(cluster, "checkpoint", words[0], "orders", *words[1:])
        assert seen.code == 3 and "No such file or directory" in seen.err
    assert shell.run(cluster, "checkpoint", "export", "orders").out == SAVED
    assert shell.run(cluster, "checkpoint", "export", "orders", "-f", str(file)).code == 0
    assert file.read_text() == SAVED and list(tmp_path.iterdir()) == [file]
    assert shell.run(cluster, "checkpoint", "import", "orders", "-f", str(file), "--yes").code == 0
    assert cluster.calls[-1].stdin == SAVED.encode()
    assert program.done[0][:3] == ["checkpoint", "import", "--file"]


def test_a_credential_of_another_account_is_no_argument(shell: Shell, tmp_path: Path) -> None:
    secret = tmp_path / "old"
    secret.write_text("AccountName=old;AccountKey=c2VjcmV0")
    cluster = cluster_with(Checkpoints())
    words = ("migrate", "orders", "--from", "azure-sdk", "--container", "old", "--yes")
    assert shell.run(cluster, *words, "--connection-string-file", str(secret)).code == 0
    (call,) = cluster.calls
    assert call.stdin == secret.read_bytes() and "c2VjcmV0" not in " ".join(call.command)
    assert call.command[call.command.index("--connection-string-file") + 1] == "/dev/stdin"


def replay_of(cluster: Inside) -> dict[str, object]:
    return dict(cluster.get(EVENT_CONSUMER, "shop", "orders")["spec"].get("replay", {}))


def test_a_replay_is_asked_for(shell: Shell, agreed: list[str]) -> None:
    cluster = cluster_with()
    words = ("--consumer-group", "replays", "--name", "one", "--from", "2026-01-01T00:00:00Z", "-p", "1")
    seen = shell.run(cluster, "replay", "orders", *words)
    assert seen.code == 0 and agreed == ["Start this replay of orders?"]
    assert "consumer group replays" in seen.err and "drained/shop/orders/_replays/one" in seen.err
    expected = {"name": "one", "consumerGroup": "replays", "from": "2026-01-01T00:00:00Z", "partitions": ["1"]}
    assert replay_of(cluster) == expected


def test_another_replay_has_nothing_of_the_one_before(shell: Shell) -> None:
    before = {"name": "one", "consumerGroup": "old", "to": "2026-01-01T00:00:00Z", "partitions": ["1"]}
    cluster = cluster_with(replay=before)
    words = ("replay", "orders", "--consumer-group", "replays", "--name", "two", "--yes")
    refused = shell.run(cluster, *words)
    assert refused.code == 2 and "replay one is not complete (Pending)" in refused.err
    resource = cluster.objects["eventconsumers", "shop", "orders"]
    resource["status"] = {"replay": {"name": "one", "state": "Succeeded"}}
    assert shell.run(cluster, *words).code == 0
    assert replay_of(cluster) == {"name": "two", "consumerGroup": "replays"}
    assert shell.run(cluster, *words).code == 2, "a name runs once"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--consumer-group", "$default"), 2, "the consumer's own"),
        (("--consumer-group", "r", "--from", "1h", "--to", "2h"), 3, "--from must be before --to"),
        (("--consumer-group", "r", "--from", "yesterday"), 3, "'yesterday' is not a time"),
        (("--consumer-group", "r", "--name", "Bad_Name"), 3, "--name"),
    ],
)
def test_a_replay_that_cannot_be(shell: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    cluster = cluster_with()
    seen = shell.run(cluster, "replay", "orders", *words, "--yes")
    assert seen.code == code and said in seen.err
    assert replay_of(cluster) == {}


@pytest.mark.parametrize(
    ("words", "question", "remedy"),
    [
        (("adopt",), "Make these the files and leases of orders?", "kubectl eventconsumer doctor"),
        (
            ("hub", "accept"),
            "Continue orders with the present events of its Event Hub?",
            "suspend orders --wait stops its hosts",
        ),
        (
            ("hub", "reposition"),
            "Begin partitions of orders without a file there?",
            "suspend orders --wait stops its hosts",
        ),
    ],
)
def test_a_chain_is_adopted_and_a_hub_accepted_after_a_question(
    shell: Shell, agreed: list[str], words: tuple[str, ...], question: str, remedy: str
) -> None:
    program = Checkpoints()
    seen = shell.run(cluster_with(program), *words, "orders")
    assert (seen.code, seen.out, agreed) == (0, "plan\ndone\n", [question])
    assert program.done == [[*words, "--yes"]]
    refused = shell.run(cluster_with(Checkpoints(held=True)), *words, "orders")
    assert refused.code == 2 and remedy in refused.err


def test_dead_letters_are_redriven_and_dropped_after_a_question(shell: Shell, agreed: list[str]) -> None:
    program = Checkpoints()
    cluster = cluster_with(program)
    for words, question in (
        (("redrive", "orders", "-p", "3", "--sequence-number", "7", "--sequence-number", "9"), "handler again?"),
        (("drop", "orders", "--all"), "for ever?"),
    ):
        seen = shell.run(cluster, "deadletters", *words)
        assert (seen.code, seen.out) == (0, "plan\ndone\n") and question in agreed[-1]
    place = ["--partition", "3", "--sequence-number", "7", "--sequence-number", "9"]
    assert program.done == [
        ["deadletters", "redrive", *place, "--yes"],
        ["deadletters", "drop", "--all", "--yes"],
    ]
    calls = len(cluster.calls)
    for words in (
        (),
        ("--all", "-p", "0"),
        ("--all", "-p", "0", "--sequence-number", "1"),
        ("--sequence-number", "1"),
        ("-p", "0", "-p", "1", "--sequence-number", "1"),
    ):
        assert shell.run(cluster, "deadletters", "drop", "orders", *words, "--yes").code == 3
    assert len(cluster.calls) == calls and len(agreed) == 2
