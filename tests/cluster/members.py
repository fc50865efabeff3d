"""Members of a job whose sources are lists, whose sinks are lists, whose clock stands still: a test moves every packet itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raystreams.cluster.links import Packet
from raystreams.cluster.member import TaskMember
from raystreams.cluster.orders import Mode, Orders, Peer
from raystreams.cluster.outputs import WrittenBatch
from raystreams.cluster.standby import MemoryPlace, Standby
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import TaskSettings
from raystreams.cluster.wiring import Split
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine

from raystreams import Topology
from tests.cluster.pairs import counting


class ListShell:
    """What surrounds a task: `source` is what its split still has, `written` is what the sink of "out" has."""

    def __init__(self, task: PartitionTask, database: TaskDatabase) -> None:
        self.task, self.database = task, database
        self.source: list[tuple[Any, Any]] | None = None
        """What its split still has; None where none is read."""
        self.at_once = 1 << 30
        """Records that the split gives at once."""
        self.ends = True
        self.sink_takes = True
        self.written: list[tuple[Any, Any]] = []
        self.taken = self.asked = self.opened = 0
        self._next = 0

    def give(self, *records: tuple[Any, Any]) -> None:
        """More records for the split."""
        self.source = [*(self.source or []), *records]

    def take(self) -> bool:
        if self.source is None or (channel := self.task.splits["in/s"]).ended or self.task.is_held_up(channel):
            return False
        part, self.source = self.source[: self.at_once], self.source[self.at_once :]
        times = range(self._next, self._next + len(part))
        self._next += len(part)
        self.taken += len(part)
        if part:
            self.task.offer("in/s", [key for key, _ in part], [value for _, value in part], times, times)
        elif self.ends:
            channel.end()
        return bool(part) or channel.ended

    def punctuate(self) -> bool:
        return False

    def open(self) -> None:
        self.opened += 1

    def pending(self) -> Sequence[WrittenBatch]:
        outputs = self.task.outputs
        return [batch for topic in outputs.topics() for batch in outputs.pending(topic)]

    def write(self, batches: Sequence[WrittenBatch]) -> bool:
        self.asked += 1
        for batch in batches if self.sink_takes else ():
            if batch.sequence > self.task.outputs.written_up_to(batch.topic, 0):
                if batch.topic == "out":
                    self.written += [(record.key, record.value) for record in batch.records]
                self.task.outputs.was_written(batch.topic, 0, 1, batch.sequence, len(self.written))
        return self.sink_takes

    @property
    def is_finished(self) -> bool:
        return self.task.finished and not self.task.unacknowledged

    @property
    def is_quiet(self) -> bool:
        splits_ended = all(channel.finished for channel in self.task.splits.values())
        return splits_ended and not self.task.waiting and not self.task.unacknowledged


class Clock:
    """Seconds, as a test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Members:
    """All tasks of a job. Task 0 reads the one split, which comes to an end if it `ends`."""

    def __init__(self, topology: Topology, partitions: int = 2, *, ends: bool = True, edge_records: int = 1000) -> None:
        self.topology, self.partitions, self.edge_records = topology, partitions, edge_records
        self.clock = Clock()
        self.engines = [MemoryEngine() for _ in range(partitions)]
        self.shells = [self._shell(partition, ends) for partition in range(partitions)]
        self.members = [TaskMember(shell, 1, clock=self.clock) for shell in self.shells]
        self.dead: set[int] = set()
        """Members that take no turns, whose mail nobody answers."""
        self.unanswered: list[Packet] = []
        self.order_all()

    def _shell(self, partition: int, ends: bool) -> ListShell:
        database = TaskDatabase.open(None, {"partition": partition}, engine=self.engines[partition])
        splits = [Split(topic="in", name="s", index=0, owner=0)]
        settings = TaskSettings(epoch=1, edge_records=self.edge_records)
        task = PartitionTask(
            self.topology, partition, self.partitions, database, splits=splits, wall_clock=lambda: 0, settings=settings
        )
        shell = ListShell(task, database)
        shell.ends = ends
        if partition == 0:
            shell.give()
        return shell

    def orders(
        self, partition: int, *, epoch: int = 1, mode: Mode = "run", loops_ended: int = 0,
        standbys: Mapping[str, tuple[bool, int]] | None = None,
    ) -> Orders:  # fmt: skip
        """Orders of a member, with all its peers."""
        peers = {number: Peer(f"task {number}", 1) for number in range(self.partitions) if number != partition}
        return Orders(
            incarnation=1, epoch=epoch, owner=f"task {partition}", mode=mode, peers=peers, loops_ended=loops_ended,
            standbys=standbys or {},
        )  # fmt: skip

    def order_all(self, mode: Mode = "run", *, loops_ended: int = 0) -> None:
        """The same for all."""
        for partition, member in enumerate(self.members):
            member.follow(self.orders(partition, mode=mode, loops_ended=loops_ended))

    def deliver(self) -> list[Packet]:
        """What is due arrives, and replies do; what the dead should take never does."""
        packets = [packet for n, member in enumerate(self.members) if n not in self.dead for packet in member.due()]
        for packet in packets:
            if packet.message.receiver in self.dead:
                self.unanswered.append(packet)
            else:
                self.members[packet.message.sender].answered(packet, self.members[packet.message.receiver].receive(packet))
        return packets

    def revive(self) -> None:
        """The dead go on; those who wrote to them hear that it was lost."""
        self.dead.clear()
        for packet in self.unanswered:
            self.members[packet.message.sender].lost(packet)
        self.unanswered.clear()

    def rounds(self, count: int) -> None:
        """So many rounds, each one second long: each member takes a turn, then all packets arrive."""
        for _ in range(count):
            self.clock.now += 1
            for number, member in enumerate(self.members):
                if number not in self.dead:
                    member.turn()
            self.deliver()


def alone(*, ends: bool = False) -> Members:
    """One task that has read, committed and written something, and waits for more."""
    made = Members(counting(), 1, ends=ends)
    made.shells[0].give((None, "first"))
    made.rounds(4)
    if not ends:  # one more now, so that the next commit is not due by its time
        made.shells[0].give((None, "second"))
        made.members[0].turn()
    made.shells[0].written.clear()
    made.shells[0].taken = made.shells[0].asked = 0
    return made


def with_standby(partition: int = 0) -> tuple[Members, TaskMember, Standby]:
    """A task of two with a standby that has caught up; nothing was read."""
    made = Members(counting(), ends=False)
    made.rounds(3)
    task, standby = made.members[partition], Standby(MemoryPlace({"partition": partition}))
    task.follow(made.orders(partition, standbys={"s": (False, 0)}))
    replicate(task, standby)
    return made, task, standby


def replicate(task: TaskMember, standby: Standby) -> None:
    """The standby handles what it is asked, until nothing is due."""
    while due := task.replicas_due():
        for name, asked in due:
            task.replicated(name, asked, standby.handle(asked))


def again(made: Members, partition: int = 0) -> TaskDatabase:
    """The files of a task, as the next start finds them."""
    made.shells[partition].database.close()
    return TaskDatabase.open(None, {"partition": partition}, engine=made.engines[partition])


def left_to_write(made: Members, partition: int = 0) -> list[tuple[Any, Any]]:
    """What the next start of a task gives to the sink first."""
    outputs = PartitionTask(made.topology, partition, made.partitions, again(made, partition), wall_clock=lambda: 0).outputs
    return [(record.key, record.value) for batch in outputs.pending("out") for record in batch.records]
