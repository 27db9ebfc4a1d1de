"""Text in a manifest reaches the container as it is, by Kubernetes' own algorithm of expansion."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventconsumer_api.kube.expansion import inert
from tests.support.expansion import expand, names


# The cases of expand_test.go beside the algorithm.
@pytest.mark.parametrize("runes", [True, False])
@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_A", "$(VAR_A"),
        ("$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A"),
        ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"),
        ("$VAR_A", "$VAR_A"),
        ("$", "$"),
        ("foo$$", "foo$"),
        ("f000-$(VAR_C)", "f000-$(VAR_C)"),
    ],
)
def test_the_port_of_the_algorithm_gives_what_kubernetes_gives(text: str, expanded: str, *, runes: bool) -> None:
    assert expand(text, {"VAR_A": "A", "VAR_B": "B"}, runes=runes) == expanded


@pytest.mark.slow
@given(st.text(st.sampled_from("$()A é世\n")) | st.text(), st.booleans())
@example("$(A)", True)
@example("$$(A)", True)
@example("$$$$$(A)$", True)
@example("$é", False)
def test_the_container_gets_exactly_the_text(text: str, runes: bool) -> None:  # noqa: FBT001 -- hypothesis gives it
    assert expand(inert(text), {"A": "secret"}, runes=runes) == text
    assert names(inert(text)) == ()


@pytest.mark.parametrize("text", ["", "$Default", "a$b", "$", "50 $", "${NAME}", "(A)"])
def test_text_that_kubernetes_leaves_alone_does_not_change(text: str) -> None:
    assert inert(text) == text


def test_what_is_not_inert_is_replaced() -> None:
    assert expand("$(A)", {"A": "secret"}) == "secret"
    assert names("$(A) $$(B) $(C)") == ("A", "C")
