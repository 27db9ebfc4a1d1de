"""What the kubelet makes of an argument, and of the value of a variable: a port of Kubernetes' algorithm, line by line.

Source: `Expand` and `tryReadVariableName` of k8s.io/kubernetes/third_party/forked/golang/expansion/expand.go.
tests/unit/api/kube/test_expansion.py plays the cases of its test.
"""

from collections.abc import Mapping


def expand(text: str, variables: Mapping[str, str] | None = None, *, runes: bool = True) -> str:
    """The text that a process gets.

    Args:
        text: A value or an argument of a manifest.
        variables: The variables that the container has before it; a reference to another name stays as it is.
        runes: Whether a character beyond ASCII after a dollar is read as a whole, as by Kubernetes 1.35, or its first
            byte is, as by older versions.
    """
    known = {name.encode(): value.encode() for name, value in (variables or {}).items()}
    return _expand(text.encode(), known, [], runes=runes).decode()


def names(text: str) -> tuple[str, ...]:
    """The names of variables that are looked up for a text."""
    found: list[bytes] = []
    _expand(text.encode(), {}, found, runes=True)
    return tuple(name.decode() for name in found)


def _expand(text: bytes, variables: Mapping[bytes, bytes], found: list[bytes], *, runes: bool) -> bytes:
    out, cursor, checkpoint = b"", 0, 0
    while cursor < len(text):
        if text[cursor : cursor + 1] == b"$" and cursor + 1 < len(text):
            out += text[checkpoint:cursor]
            read, is_variable, advance = _try_read(text[cursor + 1 :], runes=runes)
            if is_variable:
                found.append(read)
                read = variables.get(read, b"$(" + read + b")")
            out += read
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
