"""What the demo publishes: waves whose ids follow each other, each key's events in order."""

from collections import defaultdict

from azure.eventhub import EventData

from eventconsumer_demo import publisher


class Sent:
    """Takes what would be sent."""

    def __init__(self) -> None:
        self.ids: dict[str, list[int]] = defaultdict(list)

    def send_batch(self, events: list[EventData], partition_key: str) -> None:
        self.ids[partition_key] += [event.properties["id"] for event in events]


def test_two_waves_have_every_id_once_and_in_order() -> None:
    sent = Sent()
    waves = [publisher.publish(sent, first, count) for first, count in ((0, 100), (100, 2_007))]  # type: ignore[arg-type]
    assert sorted(i for ids in sent.ids.values() for i in ids) == list(range(2_107))
    for key, ids in sent.ids.items():
        assert ids == sorted(ids)
        assert {f"customer-{i % publisher.KEYS:02d}" for i in ids} == {key}
        assert sum(wave[key]["events"] for wave in waves) == len(ids)
        assert sum(wave[key]["id_sum"] for wave in waves) == sum(ids)
