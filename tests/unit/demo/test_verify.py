"""The demo's check must fail when an event is lost, doubled, or when one loss hides another's double."""

import pyarrow as pa
import pytest

from eventconsumer_demo.run import show_result
from eventconsumer_demo.verify import Result, Tally, differences, tallies_of

SENT = {"a": Tally(events=3, id_sum=6), "b": Tally(events=2, id_sum=9)}


def test_equal_results_have_no_difference() -> None:
    assert differences(SENT, {"a": Tally(3, 6, 3), "b": Tally(2, 9, 2)}) == []


@pytest.mark.parametrize(
    "result",
    [
        {"a": Tally(3, 6, 3)},  # a key is missing
        {"a": Tally(2, 5, 2), "b": Tally(2, 9, 2)},  # an event is lost
        {"a": Tally(4, 7, 3), "b": Tally(2, 9, 2)},  # an event stands twice
        {"a": Tally(3, 6, 2), "b": Tally(2, 9, 2)},  # one lost, another twice
        {"a": Tally(3, 7, 3), "b": Tally(2, 9, 2)},  # other events than those sent
        {"a": Tally(3, 6, 3), "b": Tally(2, 9, 2), "c": Tally(1, 1, 1)},  # a key nobody sent
    ],
)
def test_any_difference_is_named(result: dict[str, Tally]) -> None:
    assert len(differences(SENT, result)) == 1


def test_rows_are_counted_by_key_with_their_distinct_ids() -> None:
    properties = [[("id", str(i)), ("kind", "paid")] for i in (1, 2, 2)] + [[("kind", "without an id")]]
    rows = pa.table(
        {
            "partition_key": ["a", "b", "b", "b"],
            "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
        }
    )
    assert tallies_of(rows) == {"a": Tally(1, 1, 1), "b": Tally(3, 4, 1)}


def test_waves_add_up() -> None:
    assert Tally(3, 6, 3) + Tally(2, 9, 2) == Tally(5, 15, 5)


def test_the_verdict_is_plain_text_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(Result(3, {"a": Tally(3, 6, 3)}), [])
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.endswith("Every one of 3 events is in both Delta tables exactly once (version 3, 1 partition keys).")
