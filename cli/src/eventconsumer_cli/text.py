"""Numbers, times and sizes as people read them. Pure."""

from datetime import datetime

PROGRAM = "kubectl eventconsumer"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


def count(number: float | None) -> str:
    """1,234; a dash for what is not known."""
    return "-" if number is None else f"{number:,.0f}"


def part(number: int | None, total: int | None) -> str:
    """7/8; a dash for a number that is not known, and a question mark for a total."""
    return f"{'-' if number is None else number}/{total or '?'}"


def duration(seconds: float | None) -> str:
    """Two units at most: 45s, 3m20s, 5h2m, 12d4h; a dash for what is not known."""
    if seconds is None:
        return "-"
    left = max(0, round(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return "".join(parts[:2])


def age(then: datetime | None, now: datetime) -> str:
    """How long ago; a dash for never or not known."""
    return "-" if then is None else duration((now - then).total_seconds())


def size(number: float | None) -> str:
    """1.2 MB; a dash for what is not known."""
    if number is None:
        return "-"
    value = float(number)
    for unit in _SIZES[:-1]:
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} {_SIZES[-1]}"


def rate(per_second: float | None) -> str:
    """So many a second: 0, 0.3, 12, 1,234; a dash for what is not known."""
    if per_second is None:
        return "-"
    return f"{per_second:.1f}" if 0 < per_second < 9.95 else f"{per_second:,.0f}"


def time_of(text: str | None) -> datetime | None:
    """A time as the API server writes it."""
    return datetime.fromisoformat(text) if text else None
