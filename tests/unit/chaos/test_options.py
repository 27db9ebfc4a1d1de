"""The options of the campaign's command."""

import pytest

from tests.chaos.__main__ import chosen, main
from tests.chaos.faults import FAULTS
from tests.chaos.stage import Options, resource


def test_faults_are_chosen_by_name() -> None:
    assert chosen("") == list(FAULTS)
    assert [fault.name for fault in chosen("host-killed,hub-busy")] == ["host-killed", "hub-busy"]
    with pytest.raises(SystemExit, match="no fault hub-lazy: "):
        chosen("hub-busy,hub-lazy")


def test_all_faults_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [fault.name for fault in FAULTS]


def test_two_consumers_share_containers_and_nothing_else() -> None:
    one, two = (resource(f"c-{letter}", "c", Options())["spec"] for letter in "ab")
    assert one["sink"]["container"] == two["sink"]["container"] != one["checkpointStore"]["container"]
    assert one["checkpointStore"]["container"] == two["checkpointStore"]["container"]
    for path in (("sink", "prefix"), ("eventHub", "name"), ("spark", "output")):
        assert one[path[0]][path[1]] != two[path[0]][path[1]]


def test_no_driver_stays_where_batches_are_parallel() -> None:
    assert resource("a", "c", Options(idle_timeout=600))["spec"]["spark"]["idleTimeoutSeconds"] == 600
    spark = resource("a", "c", Options(idle_timeout=600, in_flight=4))["spec"]["spark"]
    assert (spark["idleTimeoutSeconds"], spark["batch"]) == (0, {"inFlight": 4})
