"""What a job's manager decides, as a function of what it hears: no Ray, no thread, no clock but the one that it is given.

    heard    reports of actors, deaths, nodes that are there, what users want
    tick     compares that with what should be, and changes the record: new epochs, new owners, new copies
    out      `Fleet`: save the record, launch an actor, end one. Orders of each actor are a function of the record

A partition without a living owner is given to: the same disk, if its node is there; a standby that is in sync; a node that sees
the same disk. If there is none of these it waits, and the job says which partitions are missing: never is a partition begun
anew that had state. Source: design, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from raystreams.cluster.job_record import Copy, JobRecord, Outcome, PartitionRecord
from raystreams.cluster.orders import Mode, Orders, Peer, Report
from raystreams.cluster.placement import Node, room_for, roomiest

SILENT_SECONDS = 10.0
"""An actor that says nothing for so long, on a node that is there, is stuck: it is replaced."""

LAUNCH_SECONDS = 60.0
"""So long an actor may take to say something for the first time."""

DEATHS, DEATHS_SECONDS = 6, 60.0
"""A partition whose task dies more often than that in so many seconds fails the job."""


class Fleet(Protocol):
    """What a supervisor can do."""

    def save(self, record: JobRecord) -> None:
        """Write the record down; nothing that follows from it is done before that."""
        ...

    def launch(self, partition: int, copy: Copy) -> None:
        """Start an actor on a node."""
        ...

    def end(self, name: str) -> None:
        """Kill an actor, if it still lives."""
        ...


@dataclass(slots=True)
class _Actor:
    """What is known of an actor."""

    partition: int
    launched_at: float
    heard_at: float | None = None
    report: Report | None = None
    gone: str | None = None
    """Why it is dead."""


@dataclass(slots=True)
class _Deaths:
    times: list[float] = field(default_factory=list)
    why: str = ""


class Supervisor:
    """Keeps a job's tasks as they should be."""

    def __init__(self, record: JobRecord, fleet: Fleet, now: float) -> None:
        self.record, self._fleet = record, fleet
        self.nodes: dict[str, Node] = {}
        self._actors: dict[str, _Actor] = {}
        self._deaths = {partition: _Deaths() for partition in record.tasks}
        self._quiet: tuple[tuple[int, int], ...] | None = None
        self._heard: dict[str, int] = {}
        """Reports of each actor since the last look at loops."""
        self._started_at = now
        self.missing: list[int] = []
        """Partitions that have no copy that may go on."""
        self.is_over = False
        for partition, task in record.tasks.items():
            for name in task.copies:
                self._actors[name] = _Actor(partition, now)

    # ---- what it hears

    def launch_all(self) -> None:
        """Start the actors of the record, for the first time."""
        for partition, task in self.record.tasks.items():
            for copy in task.copies.values():
                self._fleet.launch(partition, copy)

    def see_nodes(self, nodes: Sequence[Node]) -> None:
        """The nodes that there are now, with what is free on each."""
        self.nodes = {node.id: node for node in nodes}

    def reported(self, name: str, report: Report, now: float) -> None:
        """An actor has answered."""
        actor = self._actors.get(name)
        if actor is not None and actor.gone is None:
            actor.heard_at, actor.report = now, report
            self._heard[name] = self._heard.get(name, 0) + 1

    def died(self, name: str, why: str) -> None:
        """An actor is known to be dead."""
        actor = self._actors.get(name)
        if actor is not None and actor.gone is None:
            actor.gone = why

    def want(self, mode: Mode) -> None:
        """Users want the job to run, to pause or to stop."""
        record = self.record
        if record.mode == mode or record.mode == "finish" or record.state in ("stopping", "failed"):
            return
        record.mode = mode
        record.state = {"run": "running", "pause": "paused", "stop": "stopping"}.get(mode, record.state)  # type: ignore[assignment]
        self._fleet.save(record)

    def silent_nodes(self, now: float, seconds: float) -> set[str]:
        """The nodes of actors that have said nothing for so long."""
        return {
            copy.node
            for name, actor in self._actors.items()
            if actor.gone is None and now - (actor.heard_at or actor.launched_at) > seconds
            for copy in (self.record.tasks[actor.partition].copies.get(name),)
            if copy is not None
        }

    def names(self) -> list[str]:
        """The actors that should be asked for reports."""
        return [name for name, actor in self._actors.items() if actor.gone is None]

    def report_of(self, partition: int) -> Report | None:
        """The last report of a partition's owner."""
        actor = self._actors.get(self.record.tasks[partition].owner)
        return None if actor is None else actor.report

    # ---- orders

    def orders_of(self, name: str) -> Orders | None:
        """What an actor should be; None if it isn't one of the job's any more."""
        actor = self._actors.get(name)
        if actor is None:
            return None
        record, task = self.record, self.record.tasks[actor.partition]
        if name not in task.copies:
            return None
        return Orders(
            incarnation=record.incarnation,
            epoch=task.epoch,
            owner=task.owner,
            mode=record.mode,
            splits=record.splits,
            peers={
                number: Peer(other.owner, other.epoch) for number, other in record.tasks.items() if number != actor.partition
            },
            standbys={copy.name: (copy.in_sync, copy.round) for copy in task.copies.values() if copy.name != task.owner},
            loops_ended=record.loops_ended,
        )

    # ---- decisions

    def tick(self, now: float) -> None:
        """Look at everything once."""
        if self.is_over:
            return
        self._see_splits()
        self._see_silence(now)
        self.missing = []
        for partition, task in self.record.tasks.items():
            self._see_standbys(task)
            self._see_owner(partition, task, now)
            if self.record.mode in ("run", "pause"):
                self._see_copies(partition, task, now)
        self._see_failures(now)
        self._see_state()
        self._see_loops()
        self._see_end(now)

    def _see_splits(self) -> None:
        if self.record.splits is not None:
            return
        for task in self.record.tasks.values():
            report = self._reported(task.owner)
            if report is not None and report.found_splits is not None:
                self.record.splits = report.found_splits
                self._fleet.save(self.record)
                return

    def _see_silence(self, now: float) -> None:
        for name, actor in self._actors.items():
            if actor.gone is not None:
                continue
            copy = self.record.tasks[actor.partition].copies.get(name)
            if copy is None:
                continue
            if copy.node not in self.nodes:
                actor.gone = f"its node {copy.node[:8]} is gone"
            elif actor.heard_at is not None and now - actor.heard_at > SILENT_SECONDS:
                actor.gone = f"it has not answered for {SILENT_SECONDS:g} s"
                self._fleet.end(name)
            elif actor.heard_at is None and now - actor.launched_at > LAUNCH_SECONDS:
                actor.gone = f"it has not started within {LAUNCH_SECONDS:g} s"
                self._fleet.end(name)

    def _see_standbys(self, task: PartitionRecord) -> None:
        """What the owner says of its standbys, written down before it is told."""
        report = self._reported(task.owner)
        if report is None or report.epoch != task.epoch:
            return
        changed = False
        for name, (phase, round) in report.standbys.items():
            copy = task.copies.get(name)
            if copy is None:
                continue
            if phase == "lost" and round > copy.round:
                copy.in_sync, copy.round, changed = False, round, True
            elif phase == "in sync" and round == copy.round and not copy.in_sync:
                copy.in_sync, changed = True, True
            elif phase == "behind" and round > copy.round:
                copy.round, changed = round, True
        if changed:
            self._fleet.save(self.record)

    def _see_owner(self, partition: int, task: PartitionRecord, now: float) -> None:
        owner = self._actors.get(task.owner)
        report = None if owner is None else owner.report
        if report is not None and report.state == "failed" and report.lost_state and self._in_sync(task):
            assert owner is not None
            owner.gone = owner.gone or f"its files are damaged: {report.error}"
            self._fleet.end(task.owner)
        if owner is not None and owner.gone is None:
            return
        if report is not None and report.state in ("stopped", "finished") and self.record.mode in ("stop", "finish"):
            return
        self._replace_owner(partition, task, "" if owner is None or owner.gone is None else owner.gone, now)

    def _replace_owner(self, partition: int, task: PartitionRecord, why: str, now: float) -> None:
        copy = task.copies.get(task.owner)
        if copy is None:
            return
        if self._dies_too_often(partition, why, now):
            return
        damaged = (owner := self._actors.get(task.owner)) is not None and owner.report is not None and owner.report.lost_state
        standby = next(iter(self._in_sync(task)), None)
        node = copy.node if copy.node in self.nodes else self._other_with(copy.node)
        if (damaged or copy.node not in self.nodes) and standby is not None:
            self._promote(task, standby)
        elif node is not None and not damaged:
            self._start_again(partition, task, copy, node, now)
        else:
            self.missing.append(partition)
            self._deaths[partition].times.pop()  # waiting is no death

    def _in_sync(self, task: PartitionRecord) -> list[Copy]:
        return [
            copy
            for name, copy in task.copies.items()
            if name != task.owner and copy.in_sync and (actor := self._actors.get(name)) is not None and actor.gone is None
        ]

    def _promote(self, task: PartitionRecord, standby: Copy) -> None:
        old = task.copies.pop(task.owner)
        self._actors.pop(old.name, None)
        task.owner, task.epoch = standby.name, self.record.new_epoch()
        standby.in_sync = False
        self._fleet.save(self.record)
        self._fleet.end(old.name)

    def _start_again(self, partition: int, task: PartitionRecord, copy: Copy, node: str, now: float) -> None:
        """On its own disk, or on a node that sees it."""
        del task.copies[copy.name]
        self._actors.pop(copy.name, None)
        made = Copy(name=self.record.new_name(partition), node=node, path=copy.path)
        task.copies[made.name] = made
        task.owner, task.epoch = made.name, self.record.new_epoch()
        self._fleet.save(self.record)
        self._fleet.end(copy.name)
        self._launch(partition, made, now)

    def _launch(self, partition: int, copy: Copy, now: float) -> None:
        self._actors[copy.name] = _Actor(partition, now)
        self._fleet.launch(partition, copy)

    def _other_with(self, node: str) -> str | None:
        """A node that sees the disk of another one."""
        for group in self.record.shared_nodes:
            if node in group:
                free = room_for(self.nodes.values(), self.record.needs)
                found = roomiest([n for n in free if n.id in group] or [n for n in self.nodes.values() if n.id in group])
                return None if found is None else found.id
        return None

    def _dies_too_often(self, partition: int, why: str, now: float) -> bool:
        deaths = self._deaths[partition]
        deaths.times = [time for time in deaths.times if now - time < DEATHS_SECONDS] + [now]
        deaths.why = why or deaths.why
        if len(deaths.times) <= DEATHS:
            return False
        often = f"{len(deaths.times)} times within {DEATHS_SECONDS:g} s"
        self._fail(f"partition {partition} died {often}. The last time: {deaths.why}")
        return True

    def _see_copies(self, partition: int, task: PartitionRecord, now: float) -> None:
        """As many standbys as there should be, each on another node."""
        for name in [*task.copies]:
            actor = self._actors.get(name)
            if name == task.owner or (actor is not None and actor.gone is None):
                continue
            # First out of the record: a task that comes later must not count on it.
            copy = task.copies.pop(name)
            self._actors.pop(name, None)
            self._fleet.save(self.record)
            self._fleet.end(name)
            if copy.node in self.nodes:
                self._add_standby(partition, task, copy.node, copy.path, now)
        owner = self._actors.get(task.owner)
        running = owner is not None and owner.report is not None and owner.report.epoch == task.epoch
        wanted = self.record.standby_replicas + bool(task.leaving)
        if not running or len(task.copies) - 1 >= wanted:
            return
        taken = {copy.node for copy in task.copies.values()}
        node = roomiest([n for n in room_for(self.nodes.values(), self.record.needs) if n.id not in taken and not n.draining])
        if node is not None:
            self._add_standby(partition, task, node.id, self._replica_path(partition, task), now)

    def _add_standby(self, partition: int, task: PartitionRecord, node: str, path: str, now: float) -> None:
        copy = Copy(name=self.record.new_name(partition), node=node, path=path)
        task.copies[copy.name] = copy
        self._fleet.save(self.record)
        self._launch(partition, copy, now)

    def _replica_path(self, partition: int, task: PartitionRecord) -> str:
        taken = {copy.path for copy in task.copies.values()}
        paths = (replica_path(self.record.state_dir, partition, number) for number in range(len(taken) + 1))
        return next(path for path in paths if path not in taken)

    def _see_failures(self, now: float) -> None:
        if self.record.state in ("failed", "stopping"):
            return
        for partition, task in self.record.tasks.items():
            report = self._reported(task.owner)
            if report is not None and report.state == "failed":
                self._fail(report.error or f"partition {partition} failed")
                return

    def _fail(self, error: str) -> None:
        record = self.record
        if record.error is None:
            record.error = error
        record.state, record.mode = "failed", "stop"
        self._fleet.save(record)

    def _see_state(self) -> None:
        record = self.record
        if record.state == "starting" and record.mode == "run":
            reports = [self._reported(task.owner) for task in record.tasks.values()]
            if all(report is not None and report.state in ("running", "finished") for report in reports):
                record.state = "running"
                self._fleet.save(record)

    def _see_loops(self) -> None:
        """Twice in a row all is quiet and nobody has done anything in between: then nothing is on its way, and loops may end.

        Two reports of each since the last look: the second one was asked for after that look.
        """
        if self.record.mode != "run":
            return
        owners = [task.owner for task in self.record.tasks.values()]
        if any(self._heard.get(owner, 0) < 2 for owner in owners):
            return
        self._heard.clear()
        reports = [report for report in map(self._reported, owners) if report is not None]
        quiet = len(reports) == len(owners) and all(report.is_quiet or report.is_done for report in reports)
        if not quiet or all(report.is_done for report in reports):
            self._quiet = None
            return
        seen = tuple((report.epoch, report.activity) for report in reports)
        if seen == self._quiet:
            self.record.loops_ended += 1
            self._fleet.save(self.record)
        self._quiet = seen

    def _see_end(self, now: float) -> None:
        record = self.record
        reports = {partition: self._reported(task.owner) for partition, task in record.tasks.items()}
        if record.mode == "run" and record.state == "running" and all(r is not None and r.is_done for r in reports.values()):
            record.mode = "finish"
            self._fleet.save(record)
        if record.mode not in ("stop", "finish"):
            return
        over = ("stopped", "finished", "failed")
        left = [
            partition
            for partition, report in reports.items()
            if not (report is not None and report.state in over) and partition not in self.missing and self._lives(partition)
        ]
        if left:
            return
        known = [report for report in reports.values() if report is not None]
        record.outcome = outcome_of(known, seconds=now - self._started_at)
        record.ended_at = now
        if record.mode == "finish":
            record.state = "finished"
        elif record.state != "failed":
            record.state = "stopped"
        self._fleet.save(record)
        self.is_over = True
        for name in [*self._actors]:
            self._fleet.end(name)

    def _lives(self, partition: int) -> bool:
        actor = self._actors.get(self.record.tasks[partition].owner)
        return actor is not None and (actor.gone is None or self.record.mode == "finish")

    def _reported(self, name: str) -> Report | None:
        actor = self._actors.get(name)
        return None if actor is None or actor.gone is not None else actor.report


def replica_path(state_dir: str, partition: int, number: int) -> str:
    """Return the folder of a copy of a partition; number 0 is where the embedded runner has it."""
    return f"{state_dir}/{partition:05}" if number == 0 else f"{state_dir}/replica-{number}/{partition:05}"


def outcome_of(reports: Sequence[Report], *, seconds: float) -> Outcome:
    """Return what all tasks have done, from what each has."""
    sources: dict[str, int] = {}
    sinks: dict[str, int] = {}
    for report in reports:
        for source in report.sources:
            sources[source.topic] = sources.get(source.topic, 0) + source.records
        _add(sinks, report.sinks)
    return Outcome(
        sources=sources,
        sinks=sinks,
        dropped=_counted([row for report in reports for row in report.dropped]),
        dead_letters=_counted([row for report in reports for row in report.dead_letters]),
        seconds=seconds,
        already_finished=bool(reports) and all(report.already_finished for report in reports),
    )


def _add(total: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        total[name] = total.get(name, 0) + count


def _counted(rows: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    total: dict[tuple[str, str], int] = {}
    for name, reason, count in rows:
        total[name, reason] = total.get((name, reason), 0) + count
    return [(name, reason, count) for (name, reason), count in total.items()]
