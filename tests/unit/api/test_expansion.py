"""Text in a manifest reaches the container as it is, by Kubernetes' own algorithm of expansion."""

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventconsumer_api.expansion import inert


def expand(text: bytes, variables: Mapping[bytes, bytes], *, runes: bool) -> bytes:
    """`Expand` of k8s.io/kubernetes/third_party/forked/golang/expansion, line by line.

    Args:
        text: A value or an argument of a manifest, in UTF-8.
        variables: The variables that the container has before it.
        runes: Whether a character beyond ASCII after a dollar is read as a whole, as by Kubernetes 1.35, or its first
            byte is, as by older versions.
    """
    out, cursor, checkpoint = b"", 0, 0
    while cursor < len(text):
        if text[cursor : cursor + 1] == b"$" and cursor + 1 < len(text):
            out += text[checkpoint:cursor]
            read, is_variable, advance = _try_read(text[cursor + 1 :], runes=runes)
            out += variables.get(read, b"$(" + read + b")") if is_variable else read
            cursor += advance
            checkpoint = cursor + 1
        cursor += 1
    return out + text[checkpoint:]


def _try_read(text: bytes, *, runes: bool) -> tuple[bytes, bool, int]:
    match text[:1]:
        case b"$":
            return b"$", False, 1
        case b"(":
            closer = text.find(b")", 1)
            return (b"$(", False, 1) if closer < 0 else (text[1:closer], True, closer + 1)
        case first:
            rune = text.decode()[:1].encode() if runes else first
            shown = rune if runes else chr(first[0]).encode()
            return b"$" + shown, False, len(rune)


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
    assert expand(text.encode(), {b"VAR_A": b"A", b"VAR_B": b"B"}, runes=runes).decode() == expanded


@given(st.text(st.sampled_from("$()A é世\n")) | st.text(), st.booleans())
@example("$(A)", True)
@example("$$(A)", True)
@example("$$$$$(A)$", True)
@example("$é", False)
def test_the_container_gets_exactly_the_text(text: str, runes: bool) -> None:  # noqa: FBT001 -- hypothesis gives it
    assert expand(inert(text).encode(), {b"A": b"secret"}, runes=runes) == text.encode()


@pytest.mark.parametrize("text", ["", "$Default", "a$b", "$", "50 $", "${NAME}", "(A)"])
def test_text_that_kubernetes_leaves_alone_does_not_change(text: str) -> None:
    assert inert(text) == text


def test_what_is_not_inert_is_replaced() -> None:
    assert expand(b"$(A)", {b"A": b"secret"}, runes=True) == b"secret"
