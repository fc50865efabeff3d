"""A supervisor whose fleet is a list: a test says which nodes there are and what actors report, and reads what is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raystreams.cluster.job_record import Copy, JobRecord, PartitionRecord, TaskNeeds, decode, encode
from raystreams.cluster.orders import Orders, PlannedSplit, Report, State
from raystreams.cluster.placement import Node
from raystreams.cluster.state_dir import copy_path
from raystreams.cluster.supervision import Supervisor

Call = tuple[str, ...]

SPLITS = [PlannedSplit("in", "s", 0, 0, 0, False)]


def short(name: str) -> str:
    """`job/0/4294967298` as `0-2`: the partition, and the number that the manager counted to."""
    _, partition, number = name.split("/")
    return f"{partition}-{int(number) & 0xFFFFFFFF}"


class ListedFleet:
    """Writes down what it is told to do. What is launched must be in the record that was saved last."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.saved = b""

    def save(self, record: JobRecord) -> None:
        self.calls.append(("save",))
        self.saved = encode(record)

    def launch(self, partition: int, copy: Copy) -> None:
        assert decode(self.saved).tasks[partition].copies[copy.name] == copy
        self.calls.append(("launch", short(copy.name), copy.node, copy.path))

    def end(self, name: str) -> None:
        self.calls.append(("end", short(name)))


class Supervised:
    """A job under supervision, its partitions in turn on the nodes that there are at first."""

    def __init__(
        self, nodes: str = "a", partitions: int = 1, *, standby_replicas: int = 0, shared: Sequence[Sequence[str]] = (),
        needs: TaskNeeds | None = None,
    ) -> None:  # fmt: skip
        self.now = 0.0
        self.fleet = ListedFleet()
        record = JobRecord(
            job="job", partitions=partitions, state_dir="state", incarnation=1, standby_replicas=standby_replicas,
            shared_nodes=shared, needs=needs or TaskNeeds(),
        )  # fmt: skip
        for partition in range(partitions):
            path = str(copy_path(Path("state"), partition, 0))
            copy = Copy(name=record.new_name(partition), node=nodes[partition % len(nodes)], path=path)
            record.tasks[partition] = PartitionRecord(epoch=record.new_epoch(), owner=copy.name, copies={copy.name: copy})
        self.fleet.save(record)
        self.supervisor = Supervisor(record, self.fleet, self.now)
        self.see(nodes)

    @property
    def record(self) -> JobRecord:
        return self.supervisor.record

    def see(self, nodes: str, free: float = 10) -> None:
        """The nodes, each of one letter, that there are now."""
        self.supervisor.see_nodes([Node(id=id, free={"CPU": free}) for id in nodes])

    def task(self, partition: int = 0) -> PartitionRecord:
        return self.record.tasks[partition]

    def standby(self, partition: int = 0) -> str:
        """The name of the one standby."""
        (name,) = [name for name in self.task(partition).copies if name != self.task(partition).owner]
        return name

    def copies(self, partition: int = 0) -> list[tuple[str, str]]:
        """(short name, node) of all copies."""
        return [(short(copy.name), copy.node) for copy in self.task(partition).copies.values()]

    def orders(self, name: str | None = None) -> Orders:
        """What an actor is told; of the first owner, if none is named."""
        orders = self.supervisor.orders_of(name or self.task().owner)
        assert orders is not None
        return orders

    def report(self, partition: int = 0, state: State = "running", **fields: Any) -> None:
        """An owner reports."""
        task = self.task(partition)
        self.say(task.owner, Report(state=state, **{"epoch": task.epoch, **fields}))

    def say(self, name: str, report: Report) -> None:
        """Any actor reports."""
        self.supervisor.actors.reported(name, report, self.now)

    def report_all(self, state: State = "running", **fields: Any) -> None:
        """All owners report the same."""
        for partition in self.record.tasks:
            self.report(partition, state, **fields)

    def say_of_standby(self, phase: str, round: int = 0, partition: int = 0) -> None:
        """An owner reports how its standby is."""
        self.report(partition, standbys={self.standby(partition): (phase, round)})

    def dies(self, name: str | None = None) -> None:
        """An actor is found dead; the first owner, if none is named."""
        self.supervisor.actors.died(name or self.task().owner, "killed")

    def tick(self, seconds: float = 0.0) -> list[Call]:
        """The supervisor looks at everything once; returns what it did. All that it has decided must be written down."""
        self.now += seconds
        self.fleet.calls.clear()
        self.supervisor.tick(self.now)
        assert self.fleet.saved == encode(self.record)
        return [*self.fleet.calls]

    def run(self) -> None:
        """All tasks are running, and the job is."""
        self.report_all("starting", epoch=0, found_splits=SPLITS)
        self.tick()
        self.report_all()
        self.tick()


def saved_as(nodes: Mapping[str, str]) -> list[Call]:
    """The calls that launch copies, each saved before: (short name: "node path")."""
    return [call for name, place in nodes.items() for call in (("save",), ("launch", name, *place.split()))]
