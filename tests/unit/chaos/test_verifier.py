"""The verifier of a campaign finds what is missing, there twice, or was never sent."""

from tests.chaos.verifier import Verdict, compare


def test_each_difference_is_counted() -> None:
    sent, uncertain = {1, 2, 3}, {7, 8}
    assert compare("x", [b"3", b"1", b"2"], sent, uncertain).is_clean
    assert compare("x", [b"3", b"1", b"2", b"8"], sent, uncertain).is_clean
    for bodies, expected in (
        ([b"1", b"2"], Verdict("x", 2, missing=1, twice=0, unknown=0)),
        ([b"1", b"2", b"3", b"3"], Verdict("x", 4, missing=0, twice=1, unknown=0)),
        ([b"1", b"2", b"3", b"8", b"8"], Verdict("x", 5, missing=0, twice=1, unknown=0)),
        ([b"1", b"2", b"3", b"9"], Verdict("x", 4, missing=0, twice=0, unknown=1)),
    ):
        found = compare("x", bodies, sent, uncertain)
        assert found == expected and not found.is_clean
