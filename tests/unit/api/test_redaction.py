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
)


@given(KEY, st.sampled_from(CARRIERS), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_survives(key: str, carrier: str, before: str, after: str) -> None:
    assert key not in redact(f"{before} {carrier.format(key)} {after}")


@pytest.mark.parametrize(
    "text", ["spec.sink.container: no such container", "partition 3 at sequence number 7", "sign in: key=ordinary"]
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_parts_of_a_connection_string_that_are_not_secret_stay() -> None:
    text = "Endpoint=sb://a.b/;SharedAccessKeyName=listen;SharedAccessKey=abc=;EntityPath=e"
    assert redact(text) == "Endpoint=sb://a.b/;SharedAccessKeyName=listen;SharedAccessKey=***;EntityPath=e"
