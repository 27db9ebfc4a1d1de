import base64
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.shared.redaction import redact
from tests.support.secrets import LEAKS, NAMED, ORDINARY, Leak

KEY = st.text("ABCDEFGHIJabcdefghij0123456789+/", min_size=16, max_size=64).map(lambda text: text + "==")


@pytest.mark.parametrize("leak", LEAKS, ids=[leak.name for leak in LEAKS])
def test_no_example_survives(leak: Leak) -> None:
    assert leak.secret in leak.text
    around = (f"Authorization: a {leak.text}", f"({leak.text})\n{leak.text}")
    for text in (leak.text, *around, leak.text.upper() if leak in NAMED else leak.text):
        assert leak.secret.lower() not in redact(text).lower()


@given(KEY, st.sampled_from(NAMED), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_survives(key: str, leak: Leak, before: str, after: str) -> None:
    key = key.replace("/", "%252F") if "URL" in leak.name else key
    assert key not in redact(f"{before} {leak.text.replace(leak.secret, key)} {after}")


@given(st.binary(min_size=32, max_size=32) | st.binary(min_size=64, max_size=64), st.sampled_from(" .,:;()[]<>'\"=\n|"))
def test_no_key_survives_without_a_name_before_it(key: bytes, beside: str) -> None:
    text = base64.b64encode(key).decode()
    for each in (text, quote(text, safe="")):
        assert each not in redact(f"invalid key{beside}{each}")
        assert each not in redact(f"{beside}{each}{beside.replace('=', ' ')}was refused")


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_basic_credentials_do_not_survive_without_a_header(user: str, password: str) -> None:
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    assert credentials not in redact(f"sent Basic {credentials} and failed")


PART = st.text("ABCDEFGHIJabcdefghij0123456789-_", min_size=8, max_size=64)


@given(payload=PART, signature=PART, before=st.text(max_size=20), after=st.text("., :\n)\"'", max_size=5))
def test_no_token_survives_without_a_name_before_it(payload: str, signature: str, before: str, after: str) -> None:
    redacted = redact(f"{before}eyJhbGciOiJub25lIn0.{payload}.{signature}{after}")
    assert f"{payload}." not in redacted and f".{signature}" not in redacted


@given(KEY)
def test_a_percent_encoded_signature_does_not_survive(key: str) -> None:
    once = quote(f"/c/b?sv=1&sig={quote(key, safe='')}&se=2", safe="")
    for text, hidden in ((once, quote(quote(key, safe=""), safe="")), (quote(once), quote(quote(quote(key, safe=""))))):
        assert hidden not in redact(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@given(st.sampled_from(LEAKS))
def test_a_redacted_text_stays(leak: Leak) -> None:
    """Messages are redacted where they are built, and again where they leave."""
    assert redact(redact(leak.text)) == redact(leak.text)


def test_parts_of_a_connection_string_that_are_not_secret_stay() -> None:
    text = "Endpoint=sb://a.b/;SharedAccessKeyName=listen;SharedAccessKey=abc=;EntityPath=e"
    assert redact(text) == "Endpoint=sb://a.b/;SharedAccessKeyName=listen;SharedAccessKey=***;EntityPath=e"


def test_names_around_a_secret_stay() -> None:
    """They tell what was wrong, without the secret."""
    assert redact("https://shop:pw@proxy.example:3128/x") == "https://shop:***@proxy.example:3128/x"
    assert redact("Authorization: SharedKey shop:abc= failed") == "Authorization: *** failed"
    assert redact("SharedKey shop:abc= failed") == "SharedKey shop:*** failed"
    assert redact('{"Authorization": "Bearer a.b", "x": 1}') == '{"Authorization": "***", "x": 1}'


REPEATED = sorted(
    {
        *(leak.text.partition(leak.secret)[0] for leak in LEAKS),
        *(leak.text.partition(leak.secret)[2] for leak in LEAKS),
        *(leak.text for leak in LEAKS),
        *ORDINARY,
        "eyJ",
        "eyJhbGciOiJub25lIn0.",
        "secret",
        "sig%3D",
        "sig%25",
        "SharedAccessSignature%20",
        "://",
        "://a:",
        "://a:b",
        "%3A%2F%2Fa%3A",
        "%25",
        "%2B",
        "x-",
        "x-a-",
        "x-key",
        "basic",
        "basic ",
        "Basic abcd",
        "authorization",
        "-----BEGIN ",
        "SharedKey a",
        "A",
        "A=",
        "A==",
        "sha256-",
        " ",
        "\\",
        '\\"',
        "=",
        ":",
        "token ",
    }
    - {""}
)


@pytest.mark.slow
@pytest.mark.parametrize("part", REPEATED)
def test_the_time_grows_with_the_length_only(part: str) -> None:
    def seconds(length: int) -> float:
        text = part * (length // len(part))
        started = time.process_time()
        redact(text)
        return time.process_time() - started

    # 16 times the length: 256 times the time if it were quadratic.
    assert min(seconds(64_000) for _ in range(3)) < 100 * max(min(seconds(4_000) for _ in range(3)), 0.001)
