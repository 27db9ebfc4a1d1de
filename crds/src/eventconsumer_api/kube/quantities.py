"""Canonical form of quantities, as the API server stores them. Pure.

The API server turns `1024Mi` into `1Gi`, `0.5` into `500m` and `1000M` into `1G`; a plan with another form would be
applied again at each reconcile. The rules are those of resource.Quantity in k8s.io/apimachinery.
"""

from fractions import Fraction

_MOST = 2**63 - 1
_DECIMAL = ("m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def canonical(quantity: str) -> str:
    """The canonical form of a quantity: a whole number with the largest exact suffix.

    Args:
        quantity: As `scalars.Quantity` allows it: a decimal number with m, k, Ki, M, Mi, G, Gi or no suffix.
    """
    is_binary = quantity.endswith("i")
    value = amount(quantity)
    if value > _MOST:
        return str(_MOST) if is_binary else quantity
    thousandths = -(-value * 1000 // 1)  # rounded up: a container has no finer resources
    # Below 1024, and with a fraction, a binary quantity is written as a decimal one.
    if is_binary and value >= 1024 and thousandths % 1000 == 0:
        return _shortest(thousandths // 1000, 1024, _BINARY)
    return _shortest(thousandths, 1000, _DECIMAL) if thousandths else "0"


def amount(quantity: str) -> Fraction:
    """The number that a quantity stands for: bytes, or CPUs.

    Args:
        quantity: As `canonical` takes it.
    """
    number = quantity.rstrip("mkKMGi")
    suffix = quantity[len(number) :]
    binary = suffix.endswith("i")
    unit = Fraction(1024) ** _BINARY.index(suffix) if binary else Fraction(1000) ** (_DECIMAL.index(suffix) - 1)
    return Fraction(number) * unit


def _shortest(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while amount % base == 0 and power < len(suffixes) - 1:
        amount //= base
        power += 1
    return f"{amount}{suffixes[power]}"
