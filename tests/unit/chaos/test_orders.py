"""The values that the verifier of a campaign expects are those of the oracle of columns."""

from datetime import UTC, datetime, timedelta

from eventconsumer_api.v1alpha1.sink import SinkBody
from tests.chaos import orders
from tests.support import json_oracle

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_the_expected_values_are_those_of_the_oracle() -> None:
    columns = SinkBody.model_validate({"type": "Json", "columns": orders.COLUMNS}).body_columns()
    wrong = set()
    for number in range(20 * orders.PERIOD):
        *values, bad = orders.values(number)
        expected = [
            (each - EPOCH) // timedelta(microseconds=1) if isinstance(each, datetime) else each for each in values
        ]
        found, errors = json_oracle.row(orders.body(number), columns)
        assert (found, bool(errors)) == (expected, bad), number
        wrong |= set(errors)
    assert wrong == {"", "amount"}


def test_an_id_is_found_in_each_body() -> None:
    assert [orders.identity(orders.body(number)) for number in range(orders.PERIOD)] == [*range(orders.PERIOD)]
