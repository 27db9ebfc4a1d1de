"""The hosts of a consumer, as the operator asks and tells them."""

from collections.abc import Mapping

from eventconsumer_api.wire.host_report import HostReport


class FakeHosts:
    """Hosts that say what the test wants: one report for each pod that has an address; None: no answer."""

    def __init__(self, answer: HostReport | None = None) -> None:
        self.answer = answer
        self.read = 0  # reports
        self.told: list[bytes] = []  # messages

    async def reports(self, addresses: Mapping[str, str]) -> dict[str, HostReport]:
        """The reports."""
        self.read += len(addresses)
        return dict.fromkeys(addresses, self.answer) if self.answer else {}

    async def send(
        self, addresses: Mapping[str, str], body: bytes, signature: str, *, with_reports: bool = False
    ) -> dict[str, HostReport]:
        """Take a message."""
        assert signature
        self.told.append(body)
        return dict.fromkeys(addresses, self.answer) if self.answer and with_reports else {}
