"""Forwarding between the machine's network interfaces: on while the cluster runs, then as before.

A machine that forwards is a router for its neighbours, so it does not stay on by accident. The record of a change
outlives a killed cluster. It holds the boot id, because the kernel forgets the change at the next start of the machine,
and another program may have enabled forwarding since.
"""

from dataclasses import dataclass
from pathlib import Path

# Source of both: https://www.kernel.org/doc/html/latest/admin-guide/sysctl/ (net.ipv4.ip_forward, kernel.random)
_SWITCH = Path("/proc/sys/net/ipv4/ip_forward")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_ON, _OFF = "1", "0"


@dataclass(frozen=True)
class Forwarding:
    """The kernel's switch, and the record that this cluster changed it.

    Attributes:
        record: A file that exists while forwarding is on because of the cluster.
        switch: The kernel's setting.
        boot_id: A file that identifies the present start of the machine.
    """

    record: Path
    switch: Path = _SWITCH
    boot_id: Path = _BOOT_ID

    def enable(self) -> None:
        """Enable forwarding; do nothing if it is on."""
        if self.switch.read_text().strip() == _ON:
            return
        self.record.write_text(self.boot_id.read_text())  # first: a change without a record would stay
        self.switch.write_text(f"{_ON}\n")

    def put_back(self) -> None:
        """Disable forwarding if `enable` enabled it since the machine was started."""
        if not self.record.exists():
            return
        if self.record.read_text() == self.boot_id.read_text():
            self.switch.write_text(f"{_OFF}\n")
        self.record.unlink()
