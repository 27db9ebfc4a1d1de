"""The outcome of an attack."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gained:
    """The attack succeeded.

    Attributes:
        loot: The gain, such as the value of a Secret, or the end of a process.
    """

    loot: str

    def __str__(self) -> str:
        return f"gained {self.loot}"


@dataclass(frozen=True)
class Refused:
    """A control stopped the attack.

    Attributes:
        control: The control and its message.
    """

    control: str

    def __str__(self) -> str:
        return f"refused by {self.control}"


Outcome = Gained | Refused
