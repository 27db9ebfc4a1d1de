"""Which endpoints hosts may be sent to."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.endpoints import AZURE_SUFFIXES, endpoint_problem

LABEL = st.builds("a{}9".format, st.text("abcxyz019-", max_size=8))
ADDRESS = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(lambda address: f"[{address}]")


def reason(host: str, suffixes: tuple[str, ...] = AZURE_SUFFIXES) -> str:
    problem = endpoint_problem(host, suffixes)
    return problem.reason if problem else ""


@pytest.mark.parametrize(
    "host",
    [
        "shop.servicebus.windows.net",
        "SHOP.ServiceBus.Windows.NET",
        "shop.servicebus.windows.net:5671",
        "shop.servicebus.windows.net.",
        "shop.z12.blob.storage.azure.net",
        "shop.privatelink.blob.core.windows.net",
        "shop.servicebus.usgovcloudapi.net",
        "shop.blob.core.chinacloudapi.cn",
        "shop.dfs.core.windows.net",
    ],
)
def test_azures_clouds_are_allowed_by_default(host: str) -> None:
    assert reason(host) == ""


@pytest.mark.parametrize(
    "host",
    [
        "collector.example",
        "shop.servicebus.windows.net.collector.example",
        "servicebus-windows.net",
        "evilservicebus.windows.net",
        "kubernetes.default.svc",
        "metadata.google.internal",
        "collector.example?.servicebus.windows.net",
        "collector.example/.servicebus.windows.net",
        "collector.example#.servicebus.windows.net",
        "collector.example\\.servicebus.windows.net",
        "user@collector.example",
        "shop.servicebus.windows.net@collector.example",
    ],
)
def test_other_domains_are_refused_with_what_is_allowed_and_who_can_change_it(host: str) -> None:
    problem = endpoint_problem(host, ("servicebus.windows.net",))
    assert problem is not None and problem.reason == "EndpointNotAllowed"
    assert "(servicebus.windows.net)" in problem.message
    assert "administrator to add its domain to endpointSuffixes" in problem.message


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:10000", "a.localhost", "127.1", "0x7f.0.0.1", "2130706433", "[::1]:10000", "", "."]
)
def test_the_machine_itself_is_refused_in_every_notation(host: str) -> None:
    assert reason(host) == "InsecureEndpoint"


@given(address=ADDRESS, port=st.none() | st.integers(1, 65535))
def test_no_address_is_allowed(address: str, port: int | None) -> None:
    host = address if port is None else f"{address}:{port}"
    # Not even where somebody allowed it as a suffix.
    assert reason(host, (str(ipaddress.ip_address(address.strip("[]"))),)) == "InsecureEndpoint"


@given(labels=st.lists(LABEL, min_size=1, max_size=4), suffix=st.sampled_from(AZURE_SUFFIXES))
def test_a_suffix_ends_at_a_dot_and_allows_itself(labels: list[str], suffix: str) -> None:
    name = ".".join(labels)
    assert reason(f"{name}.{suffix}") == reason(suffix, (suffix,)) == ""
    assert reason(f"{name}{suffix}", (suffix,)) != ""
    assert reason(f"{suffix}.{name}", (suffix,)) != ""
