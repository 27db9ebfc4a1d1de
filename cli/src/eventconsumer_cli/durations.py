"""Times as people write them: ISO 8601, or an age. Pure."""

import re
from datetime import datetime, timedelta

from eventconsumer_cli.errors import Failed

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(text: str, now: datetime) -> datetime:
    """The time that is meant.

    Args:
        text: Such as 2026-01-31T00:00:00Z, or 90m, 12h, 7d: so long ago.
        now: Where ages are counted from; its zone is that of times without one.

    Raises:
        Failed: It is neither.
    """
    age = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if age:
        return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Failed(f"{text!r} is no time: write 2026-01-31T00:00:00Z, or an age such as 90m, 12h or 7d") from None
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
