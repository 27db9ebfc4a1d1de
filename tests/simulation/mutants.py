"""Changes that break the protocol. The simulation must notice each, or it proves nothing.

A mutant is a substitution in the host's source. It is made in a copy of the package, which a process of its own imports
instead, so the product has no hooks for this; a substitution that does not fit the source any more is an error. Each
process plays the runs of one seed after the other until an invariant is violated, with more of what brings the mutant
out.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOST, TOOLS = "eventconsumer_host", "eventconsumer_tools"
RUNS = 80  # of the product, which must live
MOST = 600  # of a mutant, which must not: some need a rare coincidence, and any change of the host changes its runs


@dataclass(frozen=True)
class Change:
    """A substitution in a file of a package; the old text must occur exactly `times`."""

    file: str
    old: str
    new: str
    times: int = 1
    package: str = HOST

    def source(self, folder: Path) -> Path:
        """The file, where `folder` holds the packages."""
        return folder / self.package / self.file


@dataclass(frozen=True)
class Mutant:
    """A broken host.

    Attributes:
        changes: What is broken.
        more: Factors of the weights of rules that bring it out.
        steps: Of a run.
        kind: Of world, see `world.py`.
        only: Invariants that may notice it; empty: any.
    """

    changes: tuple[Change, ...]
    more: Mapping[str, float] = field(default_factory=dict)
    steps: int = 60
    kind: str = "alone"
    only: frozenset[str] = frozenset()


ZOMBIES = {"pause": 3, "resume": 3, "hold a file": 4, "release": 3, "expire lease": 3}
ALONE = {"operator": 0, "tell wrongly": 0, "tell late": 0}  # leases alone: hosts keep partitions for longer
TOLD = {"start": 4, "operator": 4, "tell wrongly": 6}
REBUILT = {"delete lease": 30, "delete leases": 40, "hold a file": 8, "release": 6, "upset": 0.3}
AGAIN = {"recreate resource": 8, "start": 3, "crash": 2}
LOSES = {"fail over": 20, "produce": 2, "recreate hub": 4}
REMOVES = {"produce": 2, "commit batch": 6}
HOLES = {"retention": 6, "freeze link": 3, "cut": 3}

NOT_COMPARED = Change("identity/records.py", "if found is not None and not belongs(found.record, wanted):", "if False:")

MUTANTS: Mapping[str, Mutant] = {
    "slots are overwritten": Mutant(
        (Change("sink/content.py", "metadata=metadata, if_absent=True)", "metadata=metadata)", 2),),
        ZOMBIES,
    ),
    "versions of the table are overwritten": Mutant(
        (Change("table/log.py", "content, if_absent=True)", "content)"),),
        ZOMBIES | {"hold a version": 8, "crash": 3, "start": 3},
    ),
    "the table's position is not read from its log": Mutant(
        (
            Change(
                "leader/table.py",
                "await follower.start() if covered is None else covered + 1",
                "await follower.start()",
            ),
        ),
        {"crash": 3, "start": 3},
    ),
    "a failed version counts as written": Mutant(
        (
            Change(
                "table/log.py",
                "            after = await self.follow(state)\n            if after.version == state.version:\n"
                "                raise\n        else:\n            after = self._after(state,",
                "            pass\n        if True:\n            after = self._after(state,",
            ),
        ),
        ZOMBIES | {"hold a version": 8, "optimize": 4},
    ),
    "a checkpoint has the first position of each partition": Mutant(
        (
            Change(
                "table/checkpoint_file.py",
                'self.transactions[found["appId"]] = {"txn": found}',
                'self.transactions.setdefault(found["appId"], {"txn": found})',
            ),
        ),
    ),
    "a version below a checkpoint counts as written": Mutant(
        (Change("table/log.py", "if await self._is_passed(version):", "if False:"),), {"tidy table": 20, "optimize": 4}
    ),
    "files are registered before the ones ahead of them": Mutant(
        (Change("leader/table.py", "tuple(waiting)[:left]", "tuple(waiting)[-1:]"),), {"cut": 2, "crash": 3}
    ),
    "a taken slot counts as committed": Mutant(
        (
            Change(
                "sink/commit.py",
                "            failure = error\n        try:",
                "            if error.status in {409, 412}:\n                return None\n"
                "            failure = error\n        try:",
            ),
        ),
        ZOMBIES,
    ),
    "a taken slot is tried again": Mutant(
        (
            Change(
                "sink/commit.py",
                "            await chain.forsake(draft)\n            return slot\n",
                "            pass\n",
            ),
        ),
        ZOMBIES,
    ),
    "slots are named by the first event seen": Mutant(
        (Change("partition/file_sink.py", "start=start,", "start=self._buffer.first,"),), HOLES
    ),
    "checkpoints are written on no condition (AzureSdk)": Mutant(
        (
            Change(
                "lease/azuresdk_store.py",
                "etag = await self._put(name, layout.encode_checkpoint(checkpoint), etag)",
                'etag = await self._blobs.put(name, b"", metadata=layout.encode_checkpoint(checkpoint))',
            ),
        ),
        ZOMBIES | ALONE | {"upset": 6, "produce": 2},
        steps=100,
    ),
    "checkpoints are written by force (EventProcessorHost)": Mutant(
        (
            Change(
                "lease/eventprocessorhost_store.py",
                '                if error.code != "ConditionNotMet":\n'
                "                    raise _lost(wanted, error) from error\n"
                "                etag = await self._same(base, error)\n",
                "                etag = await self._blobs.put(self.name(base.partition), layout.encode(wanted))\n"
                "                return replace(wanted, etag=etag)\n",
            ),
        ),
        ZOMBIES | ALONE | {"expire lease": 8, "upset": 3},
    ),
    "cleaning up deletes slots": Mutant(
        (
            Change(
                "prune/tombstones.py",
                'await store.put(file.name, b"", metadata={**info.metadata, **facts}, if_match=info.etag)',
                "await store.remove(file.name, if_match=info.etag)",
            ),
        ),
        {"clean up": 10, "commit batch": 5},
    ),
    "the epoch is not raised (EventProcessorHost)": Mutant(
        (
            Change(
                "lease/eventprocessorhost_store.py",
                "epoch=next_epoch(seen.partition, current.epoch)",
                "epoch=current.epoch",
            ),
        )
    ),
    "the epoch is not raised (AzureSdk)": Mutant(
        (
            Change(
                "lease/azuresdk_store.py",
                "epoch = next_epoch(seen.partition, max(seen.epoch, self._epochs.get(seen.partition, 0)))",
                "epoch = max(seen.epoch, self._epochs.get(seen.partition, 0), 1)",
            ),
        )
    ),
    "a lease that ran out is trusted": Mutant(
        (Change("lease/keeper.py", "if not self.lost.is_set() and self._deadline.is_over:", "if False:"),),
        {"pause": 4, "resume": 4, "cut": 2, "mend": 2},
    ),
    "the checkpoint comes before the file": Mutant(
        (
            Change(
                "partition/file_sink.py",
                "            winner = await commit(",
                "            await self._checkpoint(Checkpoint(draft.last_offset, draft.last))\n"
                "            winner = await commit(",
            ),
        )
    ),
    "a higher epoch does not halt": Mutant(
        (Change("partition/file_sink.py", "if winner.epoch > self._held.lease.epoch:", "if False:"),),
        REBUILT | ALONE | {"upset": 1, "produce": 2, "expire lease": 10, "pause": 4, "resume": 4, "start": 3},
        steps=100,
    ),
    "the start is decided twice": Mutant(
        (
            Change(
                "sink/slots.py",
                "genesis.to_json().encode(), if_absent=True)",
                "genesis.to_json().encode())",
            ),
        ),
        {"start": 3, "crash": 3, "upset": 2},
    ),
    "gaps are not recorded": Mutant((Change("partition/file_sink.py", "gap=gaps.text(missing)", 'gap=""'),), HOLES),
    "the lease is not read again under the lease": Mutant(
        (
            Change(
                "lease/eventprocessorhost_store.py",
                "current = await self._under_lease(seen.partition, rebuild)",
                "current = replace(seen, etag=(await self._under_lease(seen.partition, rebuild)).etag)",
            ),
        ),
        {"start": 3, "upset": 2, "expire lease": 3},
    ),
    "a stolen link is opened again": Mutant(
        (
            Change(
                "partition/pump.py",
                "                    return PumpEnd.STOLEN\n",
                "                    await self._retry_later(error)\n",
            ),
        ),
        {"rival": 3},
    ),
    "a rival is met under the same epoch": Mutant(
        (Change("partition/ownership.py", "await self._held.raise_epoch(above=self._held.lease.epoch)", "pass"),),
        {"rival": 5},
    ),
    "what a winner covers is kept": Mutant(
        (Change("partition/file_sink.py", "self._buffer.drop_through(winner.last)", "pass"),), ZOMBIES
    ),
    "events that a handler dropped count again behind a winner that covers them": Mutant(
        (Change("partition/buffer.py", "del self._dropped[: bisect_right(self._dropped, sequence_number)]", "pass"),),
        ZOMBIES,
    ),
    "events that a handler dropped are taken for compacted ones": Mutant(
        (
            Change("partition/file_sink.py", "dropped=buffer.dropped,", "dropped=0,"),
            Change("partition/buffer.py", "            self._dropped.frombytes(numbers.tobytes())\n", ""),
        ),
    ),
    "events go to files as they were, and not what a handler returned": Mutant(
        (
            Change(
                "partition/pump.py",
                "await self._sink.accept(fresh, missing, rows)",
                "await self._sink.accept(fresh, missing)",
            ),
        )
    ),
    "events that come again are kept": Mutant(
        (Change("partition/pump.py", "fresh = batch.rising().after(expected - 1)", "fresh = batch"),), {"redeliver": 5}
    ),
    "a gap is believed at once": Mutant(
        (Change("partition/gap_detection.py", "if not self._compacted and self._doubted != expected:", "if False:"),),
        {"skip": 8},
    ),
    "a checkpoint behind the end is followed": Mutant(
        (Change("partition/checkpoint.py", "            if not shared:", "            if False:"),),
        {"checkpoint up": 10},
    ),
    "a hub created again is drained": Mutant(
        (Change("partition/pump.py", "        if found != known:", "        if False:"),),
        {"recreate hub": 60, "retention": 20, "produce": 2},
    ),
    "an epoch below the chain's is kept": Mutant(
        (Change("partition/file_sink.py", "if end.epoch >= lease.epoch:", "if False:"),),
        {"delete lease": 8, "expire lease": 4},
    ),
    "links are opened under another epoch": Mutant(
        (Change("partition/pump.py", "epoch = self._held.lease.epoch\n        try:", "epoch = 0\n        try:"),)
    ),
    "links are opened one event too far": Mutant(
        (
            Change(
                "partition/pump.py",
                "mark is None else mark.sequence_number - 1",
                "mark is None else mark.sequence_number + 1",
            ),
        )
    ),
    "batches are overwritten": Mutant(
        (
            Change(
                "batch/log.py",
                "await self._blobs.put(manifest_name(self._prefix, manifest.number), data, if_absent=True)",
                "await self._blobs.put(manifest_name(self._prefix, manifest.number), data)",
            ),
        ),
        {"pause": 4, "resume": 4, "upset": 3, "commit batch": 3},
    ),
    "parallel batches have no limit": Mutant(
        (Change("leader/batches.py", "< when.limits.in_flight:", "< when.limits.in_flight + 1:"),), {"produce": 3}
    ),
    "a commit does not continue the totals": Mutant(
        (Change("batch/log.py", "own.after(before.record)", "own.after(None)"),), {"commit batch": 5}
    ),
    "a batch takes files in any order": Mutant(
        (
            Change(
                "batch/plan.py",
                "for slot in slots] for partition, slots",
                "for slot in reversed(slots)] for partition, slots",
            ),
        ),
    ),
    "clocks are as one": Mutant(
        (Change("leader/watermark.py", "MARGIN = CLOCKS_DIFFER", "MARGIN = timedelta(0)"),), {"move broker": 8}
    ),
    "partitions that no host has opened are complete": Mutant(
        (Change("leader/lag.py", "if len(known) == len(times):", "if known:"),), {"add partition": 10}
    ),
    "a batch is as complete as the files": Mutant(
        (
            Change(
                "leader/batches.py",
                "await asyncio.to_thread(backlog.without, files)",
                "backlog.complete",
            ),
        ),
        {"commit batch": 4},
    ),
    "files in no batch are committed": Mutant(
        (
            Change(
                "leader/lag.py",
                "later(commits, backlog.without({}) if backlog else self.complete)",
                "later(commits, self.complete)",
            ),
        ),
        {"commit batch": 8, "produce": 2, "wait": 2},
    ),
    "a new leading host forgets the totals": Mutant(
        (Change("leader/lag.py", "base = self._counted.totals\n", "base = Totals()\n"),),
        {"crash": 3, "start": 3},
        only=frozenset({"W3"}),
    ),
    "totals are written beside the ends of other files": Mutant(
        (
            Change(
                "leader/watermark.py",
                "        record = known\n",
                '        record = known.model_copy(update={"totals": complete.totals})\n',
            ),
        ),
        {"crash": 3, "start": 3},
        only=frozenset({"W3"}),
    ),
    "files in no committed batch are removed": Mutant(
        (Change("leader/retention.py", "committed = not (self.keep_uncommitted or in_batch)", "committed = True"),),
        REMOVES,
        only=frozenset({"R1"}),
    ),
    "open batches count as committed where files are removed": Mutant(
        (
            Change(
                "leader/retention.py",
                "await self._batches.manifest(number) if state.open else state.last",
                "state.last",
            ),
        ),
        REMOVES,
        only=frozenset({"R1"}),
    ),
    "files are removed before the cursor is written": Mutant(
        (
            Change(
                "leader/retention.py",
                "            await self._put(record)\n        await self._complete(record, needs)\n",
                "            await self._complete(record, needs)\n",
            ),
        ),
        REMOVES,
        only=frozenset({"R2"}),
    ),
    "the cursor is overwritten": Mutant(
        (
            Change(
                "leader/retention.py",
                "data, if_match=self._etag, if_absent=self._etag is None)",
                "data)",
            ),
        ),
        ZOMBIES | REMOVES | {"hold a cursor": 12, "start": 3},
        only=frozenset({"R2"}),
    ),
    "files are removed that the table has": Mutant(
        (
            Change(
                "leader/retention.py",
                "await self._table.remove([name.removeprefix(self._table.root) for name in names], now, self._check)",
                "pass",
            ),
        ),
        REMOVES,
        only=frozenset({"R3"}),
    ),
    "the watermark is overwritten": Mutant(
        (Change("leader/watermark.py", ", if_match=self._etag, if_absent=self._etag is None)", ")"),),
        ZOMBIES | {"hold a watermark": 8, "start": 3, "produce": 2},
    ),
    "the fleet is never balanced": Mutant(
        (Change("lease/balancer.py", "STEAL_GAP = 2", "STEAL_GAP = 200"),), {"start": 3}
    ),
    "partitions are not given up to the host that the plan says": Mutant(
        (Change("partition/manager.py", "            self._hand_over(partition)\n", "            pass\n"),), TOLD
    ),
    "an operator that is silent is believed for ever": Mutant(
        (Change("partition/operator_messages.py", "self._clock() - self._heard >= FLEET_SILENCE_SECONDS", "False"),),
        TOLD,
    ),
    "the record of the leases is not compared": Mutant((NOT_COMPARED,), kind="colliding"),
    "a notice that is not acknowledged counts": Mutant(
        (
            Change(
                "leader/notices.py",
                'labels("refused" if refused else "failed").inc()\n            raise\n',
                'labels("refused" if refused else "failed").inc()\n            return\n',
            ),
        ),
        {"refuse notices": 4},
    ),
    "the cursor of notices is overwritten": Mutant(
        (
            Change(
                "notice/cursor.py",
                "data, if_match=self._etag, if_absent=self._etag is None)",
                "data)",
            ),
        ),
        ZOMBIES | {"produce": 2, "upset a notice": 3},
    ),
    "a host forgets the acknowledgements that are not in the cursor": Mutant(
        (
            Change(
                "notice/cursor.py",
                "stored if self._places is None else joined(stored, self._places, order)",
                "stored",
            ),
        ),
        ZOMBIES | {"upset": 3, "produce": 2},
    ),
    "two hubs share leases, seen by what is lost": Mutant((NOT_COMPARED,), kind="colliding", only=frozenset({"S4"})),
    "the record of the leases is overwritten": Mutant(
        (
            Change(
                "identity/records.py",
                "await leases.blobs.put(lease_record_name(folder, group), _encoded(wanted), if_absent=True)",
                "await leases.blobs.put(lease_record_name(folder, group), _encoded(wanted))",
            ),
        ),
        kind="colliding",
    ),
    "the default place of leases has no hub in it": Mutant(
        (
            Change(
                "lease/layouts.py",
                "prefix = lease_prefix(config.leases.location.prefix,",
                'prefix = lease_prefix(config.leases.location.prefix or "",',
            ),
        ),
        kind="beside",
    ),
    "the uid is compared instead of the chain": Mutant(
        (
            Change(
                "identity/records.py",
                "await _take_over(resource, prefix, leases, sink, times)",
                'raise Blocked("spec", Reason.CHAIN_IN_USE, "another uid")',
            ),
        ),
        AGAIN,
    ),
    "a resource that is applied again has a chain of its own": Mutant(
        (
            Change(
                "identity/records.py",
                "    return found.record.chain\n",
                "    return chain_identity(sink.account, config.sink.container, prefix, resource.uid)\n",
            ),
        ),
        AGAIN,
    ),
    "a chain is taken over from a resource that lives": Mutant(
        (
            Change(
                "identity/records.py",
                "if in_use or found.record.resource.path in others(",
                "if False and found in others(",
            ),
        ),
        kind="one chain",
    ),
    "the record of the chain is overwritten": Mutant(
        (
            Change(
                "identity/records.py",
                "await sink.put(chain_name(prefix), _encoded(fresh), if_absent=True)",
                "await sink.put(chain_name(prefix), _encoded(fresh))",
            ),
        ),
        kind="one chain",
    ),
    "the last event is not compared": Mutant(
        (
            Change("partition/marks.py", "        return False\n    if offsets", "        return None\n    if offsets"),
            Change(
                "partition/marks.py", "        return False\n    return True", "        return None\n    return True"
            ),
            Change(
                "partition/pump.py",
                "        if info.last < self._sink.expected - 1:\n            raise self._diverged",
                "        if False:\n            raise self._diverged",
            ),
        ),
        LOSES,
    ),
    "a link that starts early counts as one without the last event": Mutant(
        (Change("partition/pump.py", "if batch.last >= number:", "if True:"),),
        LOSES | {"start early": 10},
    ),
    "events that vanished in memory are kept": Mutant(
        (
            Change(
                "partition/pump.py",
                "        if self._sink.forget():\n",
                "        if self._sink.mark is not None and self._sink.position != self._sink.expected:\n"
                "            self._healed()\n"
                "            return HubUnreachable(why)\n"
                "        if self._sink.forget():\n",
            ),
        ),
        LOSES,
    ),
    "hub accept ends nothing": Mutant(
        (Change("commands/accept.py", "while not await chain.seal(end.slot, empty):", "while False:", package=TOOLS),),
        LOSES | {"accept": 8},
    ),
    "retention is taken for compaction": Mutant(
        (Change("partition/holes.py", "below = int(np.searchsorted(holes[0], earliest))", "below = 0"),),
        HOLES | {"compact": 12},
    ),
    "a resource that lost its chain reads on": Mutant(
        (
            Change(
                "identity/records.py",
                "return found is not None and found.record.resource.uid != resource.uid",
                "return False",
            ),
        ),
        {"pause": 4, "resume": 2, "crash": 3, "start": 2, "wait": 1.5},
        kind="one chain",
    ),
}


def make(mutant: Mutant, target: Path) -> None:
    """Write the changed packages into a folder.

    Raises:
        ValueError: A change does not fit the source.
    """
    import eventconsumer_host

    sources = Path(eventconsumer_host.__file__).parents[1]
    for package in (HOST, TOOLS):
        shutil.copytree(sources / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    for change in mutant.changes:
        path = change.source(target)
        text = path.read_text()
        if text.count(change.old) != change.times:
            raise ValueError(f"{change.file} has {change.old!r} {text.count(change.old)} times, not {change.times}")
        path.write_text(text.replace(change.old, change.new))


def main() -> int:
    """Play runs against the package that is imported here, until one fails; the outcome as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", help="a mutant, or an empty text for the product as it is")
    parser.add_argument("--package", type=Path, required=True, help="the folder that the package must come from")
    parser.add_argument("--runs", type=int, default=MOST)
    options = parser.parse_args()
    import eventconsumer_host

    if options.package.resolve() not in Path(eventconsumer_host.__file__).resolve().parents:
        raise SystemExit(f"the package comes from {eventconsumer_host.__file__}")
    from tests.simulation.driver import episode, run

    some = list(MUTANTS.values())
    for number in range(options.runs):
        mutant = MUTANTS[options.name] if options.name else some[number % len(some)]
        seed = f"mutants/{number}"
        outcome = run(seed, episode(seed, mutant.steps, mutant.more), mutant.kind, mutant.only)
        if outcome.violation:
            print(json.dumps({"violation": outcome.violation, "runs": number + 1, "seed": seed}))
            return 1
    print(json.dumps({"violation": "", "runs": options.runs, "seed": ""}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
