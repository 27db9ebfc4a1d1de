"""The demo's check must fail when an event is lost, doubled, or when one loss hides another's double."""

import pyarrow as pa
import pytest

from eventconsumer_demo.verify import Tally, differences, tallies_of

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
