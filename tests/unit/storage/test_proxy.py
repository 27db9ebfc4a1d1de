"""The proxy of a process: from the resource or the environment, for a host or not."""

import os
from pathlib import Path

import pytest

from eventconsumer_api.errors import Blocked
from eventconsumer_api.wire.host_config import Credential, ProxyConfig
from eventconsumer_storage.proxy import proxy_for, use_proxy

HUB = "shop.servicebus.windows.net"
NAMES = ("https_proxy", "http_proxy", "no_proxy", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy in the environment; what a test sets is removed."""
    for name in NAMES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def configured(folder: Path, text: str | None = None, *no_proxy: str) -> ProxyConfig:
    file = folder / "user"
    if text is not None:
        file.write_text(text)
    credential = Credential(
        field="spec.proxy.credentialsSecretRef", secret="s", key="k", connection_string_file=str(file)
    )
    return ProxyConfig(url="http://proxy.example:3128", no_proxy=no_proxy, credential=credential)


def test_the_resource_replaces_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for("https", HUB) is None
    monkeypatch.setenv("HTTPS_PROXY", "http://other.example:8080")
    monkeypatch.setenv("NO_PROXY", HUB)
    use_proxy(None)
    assert proxy_for("https", HUB) is None
    found = proxy_for("https", "shop.blob.core.windows.net")
    assert found
    assert found.address == "other.example:8080"
    use_proxy(configured(tmp_path, "drain:p@ss:word/1\n", "blob.core.windows.net"))
    found = proxy_for("https", HUB)
    assert found
    assert (found.address, found.user, found.password) == ("proxy.example:3128", "drain", "p@ss:word/1")
    assert os.environ["https_proxy"] == "http://drain:p%40ss%3Aword%2F1@proxy.example:3128"
    assert "p@ss" not in repr(found) and "p%40ss" not in repr(found)
    assert proxy_for("https", "shop.blob.core.windows.net") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "Secret s, or its key k, does not exist: create it"),
        ("secret-without-user", "key k of Secret s has not the form <user>:<password>"),
        (":secret", "key k of Secret s has not the form <user>:<password>"),
    ],
)
def test_a_secret_of_another_form_is_refused_without_its_text(tmp_path: Path, text: str | None, message: str) -> None:
    with pytest.raises(Blocked) as caught:
        use_proxy(configured(tmp_path, text))
    assert caught.value.problem.message.startswith(message)


@pytest.mark.parametrize(
    "value", ["proxy.example:3128", "https://proxy.example:443", "http://proxy.example", "http://p:x"]
)
def test_a_variable_of_another_form_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(Blocked, match="HTTPS_PROXY must have the form http://<host>:<port>"):
        proxy_for("https", HUB)
