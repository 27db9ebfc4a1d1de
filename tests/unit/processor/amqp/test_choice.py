"""Which receiver a host uses: our own unless told otherwise."""

import pytest
from pydantic import ValidationError

from eventconsumer_api.v1alpha1 import Processing, SourceKind


def test_our_own_is_the_default_and_older_hosts_are_not_told_of_it() -> None:
    processing = Processing.model_validate_json("{}")
    assert processing.source is SourceKind.AMQP
    assert "source" not in processing.model_dump_json(by_alias=True)


def test_another_one_is_written_and_read() -> None:
    processing = Processing.model_validate_json('{"source":"Sdk"}')
    assert processing.source is SourceKind.SDK
    assert Processing.model_validate_json(processing.model_dump_json(by_alias=True)) == processing
    with pytest.raises(ValidationError):
        Processing.model_validate_json('{"source":"other"}')
