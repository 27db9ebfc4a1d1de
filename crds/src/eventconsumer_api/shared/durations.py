"""Times in user input: ISO 8601, or an age. Pure."""

import re
from datetime import datetime, timedelta

_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(text: str, now: datetime) -> datetime:
    """Parse a time.

    Args:
        text: Such as 2026-01-31T00:00:00Z, or an age such as 90m, 12h, 7d.
        now: Reference for ages; its time zone applies to times without one.

    Raises:
        ValueError: The text is neither; the message gives the format.
    """
    try:
        if age := _AGE.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time: use 2026-01-31T00:00:00Z, or an age such as 90m, 12h or 7d"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
