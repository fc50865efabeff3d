"""Who has which partition: owners that die are replaced, standbys are made, partitions move. Changes the job's record.

A partition without a living owner is given to: the same disk, if its node is there; a standby that is in sync; a node that sees
the same disk. If there is none of these it waits: never is a partition begun anew that had state.

A move is a standby on the other node, which is promoted once it is in sync; the old owner then hears that it is of the past.
Every change is saved before anything is done that relies on it. Source: design, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from logging import getLogger
from pathlib import Path
from typing import Protocol

from raystreams.cluster.job_record import Copy, JobRecord, PartitionRecord
from raystreams.cluster.known_actors import LAUNCH_SECONDS, KnownActors
from raystreams.cluster.orders import Report
from raystreams.cluster.placement import Node, balanced, room_for, roomiest
from raystreams.cluster.state_dir import copy_path

_log = getLogger(__name__)

DEATHS, DEATHS_SECONDS = 6, 60.0
"""A partition whose task dies more often than that in so many seconds fails the job."""

LAUNCHES = 1
"""So often a task's process may fail to start, without having said a word, before that fails the job."""


class Fleet(Protocol):
    """What can be done."""

    def save(self, record: JobRecord) -> None:
        """Write the record down; nothing that follows from it is done before that."""
        ...

    def launch(self, partition: int, copy: Copy) -> None:
        """Start an actor on a node."""
        ...

    def end(self, name: str) -> None:
        """Kill an actor, if it still lives."""
        ...


class TooManyDeathsError(Exception):
    """A task dies again and again: the job can't go on."""


class Custody:
    """The copies of all partitions."""

    def __init__(self, record: JobRecord, actors: KnownActors, fleet: Fleet) -> None:
        self._record, self._actors, self._fleet = record, actors, fleet
        self.nodes: Mapping[str, Node] = {}
        self.missing: list[int] = []
        """Partitions that have no copy that may go on."""
        self.most_deaths = DEATHS
        self._deaths: dict[int, list[float]] = {}
        self._launches_failed: dict[int, int] = {}
        self._told_missing: set[int] = set()

    # ---- what users want

    def rebalance(self, leave: list[str]) -> None:
        """Spread the tasks evenly over the nodes that there are, none on those that are to be left."""
        record = self._record
        owners = {n: task.copies[task.owner].node for n, task in record.tasks.items() if task.owner in task.copies}
        moves = balanced([*self.nodes.values()], owners, leave, record.needs)
        record.leave_nodes = sorted(leave)
        for partition, task in record.tasks.items():
            task.goes_to = moves.get(partition, "")
        self._fleet.save(record)

    # ---- at each tick

    def look(self, now: float, *, may_grow: bool) -> None:
        """Put everything right that can be. TooManyDeathsError says which task does not stay alive."""
        for name in self._actors.see_silence(self.nodes, now):
            self._fleet.end(name)
        self.missing = []
        for partition, task in self._record.tasks.items():
            self._see_standbys(task)
            self._see_owner(partition, task, now)
            if may_grow:
                self._see_dead_standbys(partition, task, now)
                self._see_move(partition, task, now)
                self._see_replicas(partition, task, now)

    def _see_standbys(self, task: PartitionRecord) -> None:
        """What the owner says of its standbys is written down before the owner is told."""
        report = self._actors.report(task.owner)
        if report is None or report.epoch != task.epoch:
            return
        changed = False
        for name, (phase, round) in report.standbys.items():
            copy = task.copies.get(name)
            if copy is None:
                continue
            if round > copy.round:
                # It may have caught up already, if the loss was short: a loss that has to be let go of is still "lost".
                copy.in_sync, copy.round, changed = phase == "in sync", round, True
            elif phase == "in sync" and round == copy.round and not copy.in_sync:
                copy.in_sync, changed = True, True
        if changed:
            self._fleet.save(self._record)

    # ---- owners

    def _see_owner(self, partition: int, task: PartitionRecord, now: float) -> None:
        owner = self._actors.get(task.owner)
        if owner is None or task.owner not in task.copies:
            return
        damaged = owner.report is not None and owner.report.state == "failed" and owner.report.lost_state
        if damaged and owner.gone is None and self._in_sync(task):
            owner.gone = "its files are damaged"
        if owner.gone is None or _is_over(owner.report):
            return
        copy = task.copies[task.owner]
        standby = next(iter(self._in_sync(task)), None)
        is_there = copy.node in self.nodes
        node = copy.node if is_there else self._other_with(copy.node)
        if standby is not None and (damaged or not is_there):
            _log.info("partition %d: %s; the standby on node %s takes its place", partition, owner.gone, standby.node)
            self._count_death(partition, owner.gone, now)
            self._promote(task, standby)
        elif node is not None and not damaged:
            _log.info("partition %d: %s; it is started again on node %s", partition, owner.gone, node)
            self._count_death(partition, owner.gone, now)
            self._count_launch(partition, owner.never_started)
            self._start_again(partition, task, copy, node, now)
        else:
            self.missing.append(partition)
            if partition not in self._told_missing:
                _log.warning("partition %d: %s; it waits for a node that has its state", partition, owner.gone)
            self._told_missing.add(partition)

    def _in_sync(self, task: PartitionRecord) -> list[Copy]:
        return [c for name, c in task.copies.items() if name != task.owner and c.in_sync and self._actors.lives(name)]

    def _count_death(self, partition: int, why: str, now: float) -> None:
        times = [time for time in self._deaths.get(partition, ()) if now - time < DEATHS_SECONDS]
        self._deaths[partition] = [*times, now]
        if len(times) >= self.most_deaths:
            raise TooManyDeathsError(
                f"partition {partition} died {len(times) + 1} times within {DEATHS_SECONDS:g} s. The last time: {why}"
            )

    def _count_launch(self, partition: int, failed: bool) -> None:
        self._launches_failed[partition] = self._launches_failed.get(partition, 0) + 1 if failed else 0
        if self._launches_failed[partition] > LAUNCHES:
            raise TooManyDeathsError(
                f"no process of partition {partition} has started, {LAUNCHES + 1} times: it has said nothing for "
                f"{LAUNCH_SECONDS:g} s. Ray's logs of its node say why; it may be the [runtime_env], or that others have taken "
                f"its resources"
            )

    def _promote(self, task: PartitionRecord, standby: Copy) -> None:
        old = task.copies.pop(task.owner)
        self._actors.forget(old.name)
        task.owner, task.epoch = standby.name, self._record.new_epoch()
        standby.in_sync = False
        self._fleet.save(self._record)
        self._fleet.end(old.name)

    def _start_again(self, partition: int, task: PartitionRecord, copy: Copy, node: str, now: float) -> None:
        """On its own disk, or on a node that sees it."""
        made = Copy(name=self._record.new_name(partition), node=node, path=copy.path)
        del task.copies[copy.name]
        self._actors.forget(copy.name)
        task.copies[made.name] = made
        task.owner, task.epoch = made.name, self._record.new_epoch()
        self._fleet.save(self._record)
        self._fleet.end(copy.name)
        self._launch(partition, made, now)

    def _other_with(self, node: str) -> str | None:
        """A node that sees the disk of another one."""
        for group in self._record.shared_nodes:
            if node in group:
                there = [self.nodes[id] for id in group if id in self.nodes]
                found = roomiest(room_for(there, self._record.needs))
                return None if found is None else found.id
        return None

    # ---- standbys and moves

    def _see_dead_standbys(self, partition: int, task: PartitionRecord, now: float) -> None:
        leave = self._record.leave_nodes
        for name, copy in [*task.copies.items()]:
            if name == task.owner or (self._actors.lives(name) and copy.node not in leave):
                continue
            # First out of the record: a task that comes later must not count on it.
            self._drop(task, name)
            if copy.node in self.nodes and copy.node not in leave:
                self._add(partition, task, copy.node, copy.path, now)

    def _see_move(self, partition: int, task: PartitionRecord, now: float) -> None:
        owner = task.copies.get(task.owner)
        if not task.goes_to or owner is None:
            return
        if task.goes_to not in self.nodes or owner.node == task.goes_to:
            task.goes_to = ""
            self._fleet.save(self._record)
            return
        there = [copy for copy in task.copies.values() if copy.node == task.goes_to]
        if not there:
            self._add(partition, task, task.goes_to, self._free_path(partition, task), now)
        elif there[0] in self._in_sync(task) and self._is_running(task):
            task.goes_to = ""
            _log.info("partition %d has moved to node %s", partition, there[0].node)
            self._promote(task, there[0])

    def _see_replicas(self, partition: int, task: PartitionRecord, now: float) -> None:
        """As many standbys as there should be, each on another node; one more while the partition moves."""
        wanted = self._record.standby_replicas + bool(task.goes_to)
        if not self._is_running(task):
            return
        while len(task.copies) - 1 > wanted:
            self._drop(task, next(name for name in reversed([*task.copies]) if name != task.owner))
        if len(task.copies) - 1 == wanted:
            return
        taken = {copy.node for copy in task.copies.values()} | {*self._record.leave_nodes}
        node = roomiest([node for node in room_for(self.nodes.values(), self._record.needs) if node.id not in taken])
        if node is not None:
            self._add(partition, task, node.id, self._free_path(partition, task), now)

    def _is_running(self, task: PartitionRecord) -> bool:
        report = self._actors.report(task.owner)
        return report is not None and report.epoch == task.epoch

    def _add(self, partition: int, task: PartitionRecord, node: str, path: str, now: float) -> None:
        copy = Copy(name=self._record.new_name(partition), node=node, path=path)
        task.copies[copy.name] = copy
        self._fleet.save(self._record)
        self._launch(partition, copy, now)

    def _drop(self, task: PartitionRecord, name: str) -> None:
        del task.copies[name]
        self._actors.forget(name)
        self._fleet.save(self._record)
        self._fleet.end(name)

    def _launch(self, partition: int, copy: Copy, now: float) -> None:
        self._actors.add(copy.name, partition, copy.node, now)
        self._fleet.launch(partition, copy)

    def _free_path(self, partition: int, task: PartitionRecord) -> str:
        taken = {copy.path for copy in task.copies.values()}
        folder = Path(self._record.state_dir)
        paths = (str(copy_path(folder, partition, number)) for number in range(len(taken) + 1))
        return next(path for path in paths if path not in taken)


def _is_over(report: Report | None) -> bool:
    """Whether an actor that is gone had said that all is committed, as ordered."""
    return report is not None and report.state in ("stopped", "finished")
