"""Which receiver a host uses: the SDK unless told otherwise, and nothing changes for hosts that are not told."""

import pytest
from pydantic import ValidationError

from eventconsumer_api.host_config import Credential, HubConfig, Receiver

GIVEN = '{"consumerGroup":"$Default","credential":{"field":"spec.eventHub"}}'


def test_the_sdk_is_the_default_and_leaves_configurations_as_they_were() -> None:
    config = HubConfig.model_validate_json(GIVEN)
    assert config.source is Receiver.SDK
    assert "source" not in config.model_dump_json(by_alias=True)
    assert config == HubConfig(consumer_group="$Default", credential=Credential(field="spec.eventHub"), source="sdk")


def test_another_receiver_is_written_and_read() -> None:
    config = HubConfig.model_validate_json(GIVEN[:-1] + ',"source":"amqp"}')
    assert config.source is Receiver.AMQP
    assert HubConfig.model_validate_json(config.model_dump_json(by_alias=True)) == config
    with pytest.raises(ValidationError):
        HubConfig.model_validate_json(GIVEN[:-1] + ',"source":"other"}')
