"""Checks the Delta table over the drained files against the chain (S10).

The table is read before the files are listed. Files are never removed, so the listing contains each file that the table
has. Retention removes a file from the table before it replaces the file by a tombstone: a tombstone that the table
seems to have was replaced after the table was read, so the table is read again.
"""

from collections import Counter
from collections.abc import Mapping

from eventconsumer_audit.chain import ChainAudit
from eventconsumer_audit.codes import Code
from eventconsumer_audit.identity import IdentityAudit
from eventconsumer_audit.model import ChainKey, Findings, TableAudit
from eventconsumer_audit.names import SlotFacts
from eventconsumer_audit.tablelog import FOLDER, LogDamaged, LogGap, TableLogReader
from eventconsumer_audit.tablestate import UNKNOWN, Stats, TableFile, TableState, path_of


class TableCheck:
    """The table of one consumer.

    Args:
        log: The log of the table.
        identity: Checks the chain that positions name.
        findings: Collects findings.

    Attributes:
        exists: Whether there is a table.
        state: As read before the files; None: no table, or the log cannot be read.
    """

    def __init__(self, log: TableLogReader, identity: IdentityAudit, findings: Findings) -> None:
        self.exists = False
        self.state: TableState | None = None
        self._log = log
        self._identity = identity
        self._findings = findings
        self._positions: dict[ChainKey, int] = {}
        self._behind: Counter[ChainKey] = Counter()
        self._removed: Counter[ChainKey] = Counter()
        self._pruned: list[tuple[ChainKey, int, str]] = []  # tombstones that the table had

    async def read(self) -> None:
        """Read the table, before the files are listed.

        Raises:
            StorageError: A request failed.
        """
        self.state = await self._read()
        self.exists = self.exists or self.state is not None
        if self.state:
            self._findings.merge(self.state.findings)
            for (chain, *place), position in self.state.positions.items():
                self._identity.check_part("a position in the Delta table", chain, FOLDER, (place[0], place[1]))
                if not self._identity.chain or chain == self._identity.chain:
                    self._positions[place[0], place[1]] = position

    def covers(self, place: ChainKey, start: int) -> bool:
        """Whether the table had, or passed over, the file that starts here."""
        return start <= self._positions.get(place, -1)

    def slot(self, place: ChainKey, slot: SlotFacts) -> None:
        """Check the next file of a chain."""
        if self.state is None:
            return
        position = self._positions.get(place, -1)
        if slot.start <= position < slot.last:
            text = f"the position {position} of the Delta table is inside the file of {slot.start} to {slot.last}"
            self._find(Code.TABLE_POSITION_WRONG, text, place, slot.name)
        slots = self.state.slots.get(place)
        file = slots.take(slot.start) if slots else None
        expected = not slot.tombstone and slot.count > 0  # hosts register no file without events
        if file is None:
            if slot.start > position:
                self._behind[place] += expected
            elif expected:
                text = f"the table does not have the file, but its position is {position}"
                self._find(Code.TABLE_FILE_MISSING, text, place, slot.name)
            return
        if slot.start > position:
            text = f"the table has the file, but its position is {position}: hosts would add the file again"
            self._find(Code.TABLE_FILE_WRONG, text, place, slot.name)
        if not file.active:
            self._removed[place] += not slot.tombstone
            return
        if slot.tombstone:
            self._pruned.append((place, slot.start, slot.name))
        elif wrong := difference(file, slot):
            self._find(Code.TABLE_FILE_WRONG, f"the table has {wrong}", place, slot.name)

    async def finish(self, chains: Mapping[ChainKey, ChainAudit], root: str) -> None:
        """Check what concerns no single file, after all files.

        Args:
            chains: All chains, with all files.
            root: The prefix with a slash.

        Raises:
            StorageError: A request failed.
        """
        if self.state is None:
            return
        for place, position in self._positions.items():
            self._check_end(place, position, chains.get(place))
        for place, slots in self.state.slots.items():
            for file in slots.left():
                text = "the table has this file, but it is no file of the chain"
                self._find(Code.TABLE_FILE_WRONG, text, place, root + path_of(place, file.start))
        await self._check_pruned()
        for place, count in self._behind.items():
            if count:
                self._find(Code.TABLE_BEHIND, f"{count} files are not in the Delta table yet", place, count=count)
        for place, count in self._removed.items():
            if count:
                text = f"{count} files were removed from the Delta table, by OPTIMIZE, DELETE or interrupted retention"
                self._find(Code.TABLE_FILES_REMOVED, text, place, count=count)

    def report(self) -> TableAudit | None:
        """The table's part of the report; None: no table."""
        if self.state is None:
            return TableAudit() if self.exists else None
        own = [file.active for slots in self.state.slots.values() for file in slots]
        return TableAudit(
            version=self.state.version,
            files=sum(own) + len(self.state.others),
            rows=self.state.rows,
            removed=len(own) - sum(own),
            lag_files=sum(self._behind.values()),
        )

    async def _read(self) -> TableState | None:
        try:
            return await self._log.read()
        except (LogGap, LogDamaged) as error:
            self.exists = True
            self._findings.add(Code.TABLE_LOG_MISSING if isinstance(error, LogGap) else Code.UNREADABLE, str(error))
            return None

    def _check_end(self, place: ChainKey, position: int, chain: ChainAudit | None) -> None:
        if chain is None or chain.next is None:
            text = f"the position of the Delta table is {position}, but the partition has no files"
            self._find(Code.TABLE_POSITION_WRONG, text, place)
        elif position >= chain.next:
            text = f"the position of the Delta table is {position}, but the files end at {chain.next - 1}"
            self._find(Code.TABLE_POSITION_WRONG, text, place)
        elif chain.start is not None and position < chain.start - 1:
            text = f"the position of the Delta table is {position}, but the chain starts at {chain.start}"
            self._find(Code.TABLE_POSITION_WRONG, text, place)

    async def _check_pruned(self) -> None:
        """Read the table again if it had tombstones: retention may have removed them from the table in the meantime."""
        if not self._pruned:
            return
        state = await self._read()
        for place, start, name in self._pruned:
            if state and state.is_active(place, start):
                self._find(Code.TABLE_FILE_WRONG, "the table has the file, but it is a tombstone", place, name)

    def _find(self, code: Code, message: str, place: ChainKey, blob: str = "", count: int = 1) -> None:
        self._findings.add(code, message, place, blob=blob, count=count)


def difference(file: TableFile, slot: SlotFacts) -> str:
    """PURE: what the table says about a file and its metadata does not; empty: they agree."""
    if file.size != slot.size:
        return f"a file of {file.size} bytes, but the file has {slot.size}"
    stats: Stats = file.stats
    if stats.records not in {UNKNOWN, slot.count}:
        return f"{stats.records} rows, but the file has {slot.count}"
    # Readers skip files by these bounds, which may be too wide. Source: "Per-file Statistics" in the protocol.
    if slot.dropped:
        return ""  # metadata does not name the first and the last row
    if stats.lowest > slot.first or UNKNOWN < stats.highest < slot.last:
        numbers = f"{stats.lowest} to {stats.highest}"
        return f"sequence numbers {numbers} in its statistics, but the file has {slot.first} to {slot.last}"
    return ""
