"""Numbers of things in messages: 1 file, 2 files."""


def plural(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    Args:
        number: How many; printed with separators of thousands.
        one: The noun in the singular.
        many: The plural; empty: `one` with an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
