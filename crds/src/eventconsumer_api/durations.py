"""Times as people write them: ISO 8601, or an age. Pure."""

import re
from datetime import datetime, timedelta

_AGE = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(text: str, now: datetime) -> datetime:
    """The time that a text names.

    Args:
        text: Such as 2026-01-31T00:00:00Z, or an age such as 90m, 12h, 7d.
        now: Where ages are counted from; its zone is that of times without one.

    Raises:
        ValueError: It is neither; the message says how to write it.
    """
    try:
        if age := _AGE.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time: write 2026-01-31T00:00:00Z, or an age such as 90m, 12h or 7d") from None
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
