"""Which endpoints hosts and Spark may be sent to, by role: a host name has the exact form of its role."""

import ipaddress
from collections.abc import Callable, Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec.endpoints import (
    AZURE_HUB_SUFFIXES,
    AZURE_STORAGE_SUFFIXES,
    EndpointProblem,
    hub_refusal,
    proxy_problem,
    same_account,
    service_of,
    storage_refusal,
)

Check = Callable[[str, Collection[str]], EndpointProblem | None]
PROXY_SUFFIXES = ("proxy.example",)
ROLES: dict[str, tuple[Check, tuple[str, ...], str]] = {
    "hub": (hub_refusal, AZURE_HUB_SUFFIXES, "shop.servicebus.windows.net"),
    "storage": (storage_refusal, AZURE_STORAGE_SUFFIXES, "shop.blob.core.windows.net"),
    "proxy": (proxy_problem, PROXY_SUFFIXES, "eu.proxy.example"),
}
ALL_ROLES = pytest.mark.parametrize("role", ROLES)
LABEL = st.builds("a{}9".format, st.text("abcxyz019-", max_size=8))
ACCOUNT = st.text("abcxyz0189", min_size=3, max_size=24)
ADDRESS = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(lambda address: f"[{address}]")


def reason(role: str, host: str) -> str:
    """Why a role refuses a host by default; empty if it does not."""
    check, suffixes, _ = ROLES[role]
    problem = check(host, suffixes)
    return problem.reason if problem else ""


@pytest.mark.parametrize(
    ("role", "host"),
    [
        ("hub", "shop.servicebus.windows.net"),
        ("hub", "SHOP.ServiceBus.Windows.NET"),
        ("hub", "shop-eu-1.servicebus.windows.net:5671"),
        ("hub", "shop.servicebus.windows.net:443"),
        ("hub", "shop.servicebus.usgovcloudapi.net"),
        ("storage", "shop.blob.core.windows.net"),
        ("storage", "Shop.Dfs.Core.Windows.Net"),
        ("storage", "shop.blob.core.chinacloudapi.cn"),
        ("storage", "shop.z12.blob.storage.azure.net"),
        ("storage", "shop.z1.dfs.storage.azure.net"),
        ("storage", "shop-secondary.blob.core.windows.net"),
        ("storage", "shop-internetrouting.blob.core.windows.net"),
        ("storage", "shop-microsoftrouting-secondary.dfs.core.windows.net"),
        ("proxy", "proxy.example:3128"),
        ("proxy", "a.b.Proxy.example:80"),
    ],
)
def test_endpoints_in_the_forms_of_the_documentation_are_allowed(role: str, host: str) -> None:
    assert reason(role, host) == ""


@pytest.mark.parametrize(
    ("role", "host"),
    [
        # Another role: below this domain, Azure Relay lets anybody run a web server.
        ("storage", "relay.servicebus.windows.net"),
        ("storage", "shop.blob.servicebus.windows.net"),
        ("hub", "shop.blob.core.windows.net"),
        ("proxy", "relay.servicebus.windows.net:443"),
        # Another service, no service, another level.
        ("storage", "shop.web.core.windows.net"),
        ("storage", "shop.file.core.windows.net"),
        ("storage", "shop.core.windows.net"),
        ("storage", "blob.core.windows.net"),
        ("storage", "core.windows.net"),
        ("storage", "a.shop.blob.core.windows.net"),
        ("storage", "shop.z01.blob.core.windows.net"),
        ("storage", "shop.blob.storage.azure.net"),
        ("storage", "shop.z100.blob.storage.azure.net"),
        ("hub", "servicebus.windows.net"),
        ("hub", "a.shop.servicebus.windows.net"),
        # Names of private endpoints are for DNS only.
        ("storage", "shop.privatelink.blob.core.windows.net"),
        ("hub", "shop.privatelink.servicebus.windows.net"),
        # No account has such a name.
        ("storage", "ab.blob.core.windows.net"),
        ("storage", f"{'a' * 25}.blob.core.windows.net"),
        ("storage", "my-shop.blob.core.windows.net"),
        ("storage", "shop_1.blob.core.windows.net"),
        ("storage", "-secondary.blob.core.windows.net"),
        ("hub", "-shop.servicebus.windows.net"),
        # More than a host.
        ("storage", "shop.blob.core.windows.net/other"),
        ("storage", "shop.blob.core.windows.net:8443"),
        ("hub", "shop.servicebus.windows.net:5672"),
        ("hub", "shop.servicebus.windows.net:"),
    ],
)
def test_other_forms_are_refused(role: str, host: str) -> None:
    assert reason(role, host) == "EndpointNotAllowed"


@ALL_ROLES
@pytest.mark.parametrize(
    "form",
    [
        "{}.collector.example",
        "{}.",
        "{}..",
        ".{}",
        "collector.example?.{}",
        "collector.example/.{}",
        "collector.example#.{}",
        "collector.example\\.{}",
        "collector.example%2f.{}",
        "%73{}",
        "{}%2ecollector.example",
        "user@{}",
        "user:password@{}",
        "{}@collector.example",
        "{}:443@collector.example",
        "{}\n",
        "{}\x00",
        " {}",
        "{} ",
        "a\t{}",
        "{}:0x1bb",
        "{}:\uff14\uff14\uff13",
    ],
)
def test_what_clients_read_as_another_host_is_refused_in_every_role(role: str, form: str) -> None:
    assert reason(role, form.format(ROLES[role][2])) != ""


@ALL_ROLES
@pytest.mark.parametrize(
    "alike", ["\u0430", "\uff41", "\u212a", "\u017f", "\u0131", "xn--80ak6aa92e", "\u3002", "\uff0e"]
)
def test_characters_that_look_alike_or_become_ascii_are_refused(role: str, alike: str) -> None:
    good = ROLES[role][2]
    first, _, rest = good.partition(".")
    assert not alike.isascii() or alike.startswith("xn--")
    if not alike.isascii():
        assert reason(role, f"{alike}{good}") == "EndpointNotAllowed"
        assert reason(role, f"{first}{alike}{rest}") == "EndpointNotAllowed"
    assert reason(role, f"{first}.{alike}.example") == "EndpointNotAllowed"


@ALL_ROLES
def test_other_domains_are_refused_with_the_allowed_ones_and_the_remedy(role: str) -> None:
    check, suffixes, _ = ROLES[role]
    problem = check("collector.example", suffixes)
    assert problem is not None and problem.message.startswith("collector.example is not ")
    assert f"({', '.join(suffixes)})" in problem.message
    assert f"administrator to extend {role}Suffixes" in problem.message


def test_without_allowed_domains_there_is_no_proxy() -> None:
    problem = proxy_problem("proxy.example:3128", ())
    assert problem is not None and "(there is none)" in problem.message


@given(user=st.text("abcdef:%", min_size=6, max_size=12).map("s3cret{}".format))
def test_no_message_shows_a_user_or_password(user: str) -> None:
    for check, suffixes, good in ROLES.values():
        problem = check(f"{user}@{good}", suffixes)
        assert problem is not None and "s3cret" not in problem.message


@given(host=st.text(max_size=20))
def test_messages_are_printable(host: str) -> None:
    for check, suffixes, _ in ROLES.values():
        problem = check(host, suffixes)
        assert problem is None or (problem.message.isprintable() and problem.message.isascii())


@ALL_ROLES
@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:10000",
        "a.localhost",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "[::1]:10000",
        "",
        ".",
        # The metadata service: shortened, hexadecimal, octal, decimal, mapped, and through NAT64 and 6to4.
        "169.254.169.254",
        "169.254.169.254.",
        "169.254.43518",
        "169.16689662",
        "0xa9fea9fe",
        "0xA9.0xFE.0xA9.0xFE",
        "0251.0376.0251.0376",
        "2852039166",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]:443",
        "::ffff:a9fe:a9fe",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fe80::a9fe:a9fe%eth0]",
        "[fd00:ec2::254]",
    ],
)
def test_the_machine_itself_is_refused_in_every_notation(role: str, host: str) -> None:
    for address in (host, f"{host}/shop", f"user@{host}", f"{host}?a@b.example"):
        assert reason(role, address) == "InsecureEndpoint"


@given(address=ADDRESS, port=st.none() | st.integers(1, 65535))
def test_no_address_is_allowed(address: str, port: int | None) -> None:
    host = address if port is None else f"{address}:{port}"
    # Not even where somebody allowed it, or its end, as a suffix.
    plain = str(ipaddress.ip_address(address.strip("[]")))
    for check, _, _ in ROLES.values():
        problem = check(host, (plain, plain.partition(".")[2]))
        assert problem is not None and problem.reason == "InsecureEndpoint"


@given(label=LABEL, account=ACCOUNT, suffix=st.lists(LABEL, min_size=1, max_size=3).map(".".join))
def test_a_suffix_begins_at_a_dot(label: str, account: str, suffix: str) -> None:
    suffix = f"{suffix}.example"
    good = (
        (hub_refusal, f"{label}.{suffix}"),
        (storage_refusal, f"{account}.blob.{suffix}"),
        (proxy_problem, f"{label}.{suffix}"),
    )
    for check, host in good:
        assert check(host, (suffix,)) is None
        assert check(host.removesuffix(suffix) + "x" + suffix, (suffix,)) is not None or check is proxy_problem
        assert check(host.replace(".", "x"), (suffix,)) is not None
        assert check(f"{host}.{label}", (suffix,)) is not None
        assert check(host, (f"x{suffix}",)) is not None


@pytest.mark.parametrize(
    ("host", "other", "same"),
    [
        ("shop.blob.core.windows.net", "SHOP.dfs.core.windows.net", True),
        ("shop.z01.dfs.storage.azure.net", "shop.z01.blob.storage.azure.net", True),
        ("shop.blob.svc.cluster.local:10000", "shop.dfs.svc.cluster.local:10000", True),
        ("shop.blob.core.windows.net", "shop.web.core.windows.net", False),
        ("shop.blob.core.windows.net", "shop.servicebus.windows.net", False),
        ("shop.blob.core.windows.net", "shop.blob.core.windows.net:8443", False),
        ("shop.z01.blob.storage.azure.net", "shop.z02.blob.storage.azure.net", False),
        ("shop.blob.blob.example", "shop.blob.dfs.example", False),
        ("shop.a.blob.example", "shop.a.dfs.example", False),
    ],
)
def test_only_the_service_may_differ_between_endpoints_of_an_account(host: str, other: str, same: bool) -> None:
    assert same_account(host, other) == same_account(other, host) == same


def test_the_service_of_an_endpoint() -> None:
    assert [service_of(f"shop{part}.core.windows.net") for part in (".blob", ".z01.dfs", "", ".web")] == [
        "blob",
        "dfs",
        "",
        "",
    ]
