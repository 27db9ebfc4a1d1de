"""The receiver of a host: our own unless another one is set."""

import pytest
from pydantic import ValidationError

from eventconsumer_api.v1alpha1 import ClientKind, Processing


def test_our_own_receiver_is_the_default_and_is_not_written() -> None:
    processing = Processing.model_validate_json("{}")
    assert processing.client is ClientKind.BUILT_IN
    assert "client" not in processing.model_dump_json(by_alias=True)


def test_another_receiver_is_written_and_read() -> None:
    processing = Processing.model_validate_json('{"client":"AzureSdk"}')
    assert processing.client is ClientKind.AZURE_SDK
    assert Processing.model_validate_json(processing.model_dump_json(by_alias=True)) == processing
    with pytest.raises(ValidationError):
        Processing.model_validate_json('{"client":"other"}')
