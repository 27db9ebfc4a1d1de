"""A cron expression that cannot be read is refused with the name of its field."""

from typing import Any

import pytest

from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.resource.spec import check_schedule
from tests.unit.operator.worlds import SETTINGS, SPEC, observed

OUTPUT = {"path": "abfss://out@account.dfs.core.windows.net/table"}


def spec(schedule: str) -> dict[str, Any]:
    return SPEC | {"spark": {"output": OUTPUT, "trigger": {"schedule": schedule}}}


@pytest.mark.parametrize("schedule", ["", "0 * * * *", "*/5 0-6 * * MON-FRI", "0 0 29 2 *", "0 3 L * *"])
def test_a_schedule_that_comes_is_accepted(schedule: str) -> None:
    check_schedule(EventConsumerSpec.model_validate(spec(schedule)))
    batches = make_plan(observed(spec(schedule)), SETTINGS).config.batches
    assert batches is not None and batches.trigger.schedule == schedule


@pytest.mark.parametrize("schedule", ["60 * * * *", "0 0 31 2 *", "a b c d e", "0 0 1-2-3 * *", "5-1 * * * *"])
def test_any_other_is_refused_and_named(schedule: str) -> None:
    with pytest.raises(SpecError) as raised:
        make_plan(observed(spec(schedule)), SETTINGS)
    assert raised.value.field == "spec.spark.trigger.schedule"
    assert "such as 0 * * * *" in str(raised.value)
