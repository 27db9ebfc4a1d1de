"""Clocks of tests: the loop's virtual time, and seconds that a test moves."""

import asyncio


def virtual_clock() -> float:
    """The running loop's time, seconds: virtual in tests with `virtual`."""
    return asyncio.get_running_loop().time()


class ManualClock:
    """Seconds that pass when a test says so, or somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    async def pause(self, seconds: float) -> None:
        """As `sleep`, for coroutines."""
        self.now += seconds
