"""PURE: what a check found, in order; one that failed takes those that depend on it along."""

from eventconsumer_processor.tools.model import Check, CheckReport


class Checks:
    """Collects checks in the order in which they were made."""

    def __init__(self) -> None:
        self._made: list[Check] = []

    def passed(self, name: str, detail: str) -> None:
        """It is as it should be."""
        self._made.append(Check(check=name, ok=True, detail=detail))

    def failed(self, name: str, detail: str, remedy: str) -> None:
        """It is not."""
        self._made.append(Check(check=name, ok=False, detail=detail, remedy=remedy))

    def skipped(self, name: str, why: str) -> None:
        """It was not tried."""
        self._made.append(Check(check=name, ok=None, detail=f"not tried: {why}"))

    def extend(self, other: "Checks") -> None:
        """Take the checks of another collection, behind these."""
        self._made += other._made

    def report(self) -> CheckReport:
        """All of them."""
        return CheckReport(ok=all(check.ok is not False for check in self._made), checks=list(self._made))
