"""When a host hears the hub, and how often it asks."""

from eventconsumer_api.wire.fleet import HUB_QUERIES_PER_SECOND, deaf_hosts
from eventconsumer_host.source.heard import Heard


def queries(heard: Heard, begin: int, end: int, hosts: int = 1, *, answered: bool = False) -> list[int]:
    """The seconds at which a host asks, with a look each second."""
    found = []
    for now in range(begin, end):
        if heard.ask(now, hosts):
            found.append(now)
            if answered:
                heard.hear(now)
    return found


def test_a_busy_hub_is_not_asked_and_a_silent_one_every_five_seconds() -> None:
    heard = Heard()
    for now in range(100):
        heard.hear(now)
        assert not heard.ask(now, 1)
    assert queries(heard, 100, 121) == [104, 109, 114, 119]
    assert queries(heard, 121, 140, answered=True)
    assert not heard.silent(139)


def test_after_three_queries_without_an_answer_nothing_is_read_until_an_answer() -> None:
    heard = Heard()
    heard.hear(0)
    assert [heard.silent(now) for now in (5, 14, 15, 60)] == [False, False, True, True]
    heard.hear(61)
    assert not heard.silent(62)


def test_many_hosts_ask_no_more_than_a_few() -> None:
    one = queries(Heard(), 0, 1000, hosts=128, answered=True)
    assert 0 < 128 * len(one) / 1000 <= HUB_QUERIES_PER_SECOND


def test_a_host_is_deaf_only_while_others_hear_the_hub() -> None:
    assert deaf_hosts({}) == deaf_hosts({"a": 1000}) == ()
    assert deaf_hosts({"a": 21, "b": 4}) == ("a",)
    assert deaf_hosts({"a": 19, "b": 4}) == ()
    assert deaf_hosts({"a": 24, "b": 19}) == ()  # the hub is away: they heard it in the same five seconds
    assert deaf_hosts({"a": 300, "b": 299, "c": 305}) == ()
