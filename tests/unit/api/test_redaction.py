import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.redaction import redact

KEY = st.text("ABCDEFGHIJabcdefghij0123456789+/", min_size=16, max_size=64).map(lambda text: text + "==")
CARRIERS = (
    "Endpoint=sb://a.b/;SharedAccessKeyName=x;SharedAccessKey={};EntityPath=e",
    "AccountName=a;AccountKey={};BlobEndpoint=http://b",
    "GET /c/b?sv=1&sig={}&se=2 failed",
    "sr=a&sig={}",
    "Authorization: Bearer {}",
    "password={}",
    '{{"AccountKey": "{}"}}',
    "SharedAccessSignature sr=a&sig={}&se=1",
    "GET /c/b?sv%3D1%26sig%3D{}%26se%3D2 failed",
    "redirected to /c/b%253Fsv%253D1%2526sig%253D{}",
    "SharedAccessSignature%20sr%3Da%26sig%3D{}",
    "to=%7B%22AccountKey%22%3A%22{}%22%7D",
    "password=a\\{}",
    'Job says "{{\\"AccountKey\\": \\"{}\\"}}"',
)


@given(KEY, st.sampled_from(CARRIERS), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_survives(key: str, carrier: str, before: str, after: str) -> None:
    assert key not in redact(f"{before} {carrier.format(key)} {after}")


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


@pytest.mark.parametrize(
    "text",
    [
        "spec.sink.container: no such container",
        "partition 3 at sequence number 7",
        "sign in: key=ordinary",
        "the designation is 3%",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_parts_of_a_connection_string_that_are_not_secret_stay() -> None:
    text = "Endpoint=sb://a.b/;SharedAccessKeyName=listen;SharedAccessKey=abc=;EntityPath=e"
    assert redact(text) == "Endpoint=sb://a.b/;SharedAccessKeyName=listen;SharedAccessKey=***;EntityPath=e"


@pytest.mark.parametrize(
    "part", ["eyJ", "eyJhbGciOiJub25lIn0.", "secret", "sig%3D", "sig%25", "SharedAccessSignature%20"]
)
def test_the_time_grows_with_the_length_only(part: str) -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        redact(part * count)
        return time.process_time() - started

    # 16 times the length: 256 times the time if it were quadratic.
    assert min(seconds(32_000) for _ in range(3)) < 100 * max(min(seconds(2_000) for _ in range(3)), 0.001)
