from collections.abc import Iterator

import pytest

from eventconsumer_host import compiled


@pytest.fixture(params=["compiled", "plain"], scope="module")
def decoder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once with the compiled decoder, and once as where it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(compiled, "find", lambda: None)
        assert (compiled.find() is None) == (request.param == "plain")
        yield
