"""A job in a simulated cluster: real replicas, a real supervisor, and between them a world in which everything goes wrong.

    nodes       have disks that outlive processes. A node may be lost with its disk, come back with it, or be cut off from the
                supervisor while its processes live on and go on calling the others
    processes   `Replica`s, stepped one at a time; killed between any two steps. Memory is gone then, disks stay
    calls       packets and requests wait in the network; each is carried out at some later time, sometimes twice, or is lost,
                or its answer is lost, or its receiver is dead
    supervisor  hears old reports, is killed, and starts again from the record that it saved; users pause the job, and stop it:
                then it is started again from the latest copies
    sinks       take batches by number; one that comes again must be the same one

Every choice comes from one seed. After a number of steps all is healed, and the run goes on in turn to its end. What is
checked at every step stands in `_check`; what a run gave is compared by `simulation.Comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from raystreams.cluster.custody import Fleet
from raystreams.cluster.job import Job
from raystreams.cluster.job_record import Copy, JobRecord, PartitionRecord, decode, encode
from raystreams.cluster.links import Packet
from raystreams.cluster.orders import Mode
from raystreams.cluster.placement import Node
from raystreams.cluster.replica import Replica
from raystreams.cluster.rows import lineage_of
from raystreams.cluster.simulated_network import SimulatedNetwork
from raystreams.cluster.simulated_parts import (
    Call,
    ListSink,
    NetworkWires,
    NowReader,
    SimulatedNode,
    SimulatedProcess,
    check_edges,
    dropped_of,
    list_sources,
    outputs_of,
    restarted,
    sink_topics,
)
from raystreams.cluster.simulated_run import Outcome, SplitInput
from raystreams.cluster.standby import FolderPlace, MemoryPlace, Place
from raystreams.cluster.state_dir import task_identity
from raystreams.cluster.supervision import Supervisor
from raystreams.cluster.surroundings import Surroundings
from raystreams.cluster.task_shell import TaskShell
from raystreams.operators.graph import Topology
from raystreams.stores.database import TaskDatabase
from typing_extensions import Self

STEPS = 800
"""Random steps, at most, before all is healed."""

ROUNDS = 4_000
"""Turns after which a run is stuck."""

SECONDS = (0.02, 0.1)
"""That pass at each step; with the longer ones actors are taken for stuck, too."""


class SimulatedCluster(Fleet):
    """One run of a job."""

    def __init__(
        self,
        topology: Topology,
        splits: Sequence[SplitInput],
        partitions: int,
        random: Random | None,
        *,
        standbys: int = 0,
        edge_records: int = 64,
        folder: Path | None = None,
    ) -> None:
        self.topology, self.splits, self.partitions, self.random = topology, splits, partitions, random
        self.history: list[str] = []
        self._standbys, self._edge_records, self._folder = standbys, edge_records, folder
        self._seconds = 0.0
        self._tempo = self.some(SECONDS[::-1])
        self._steps = 0
        self.sinks = {topic: ListSink(topic) for topic in sorted(sink_topics(topology))}
        sources = list_sources(self, topology, splits)
        self._job = Job("simulation", topology, partitions=partitions, sources=sources, sinks=self.sinks, state_dir="state")
        self._nodes = [SimulatedNode(f"node-{number}") for number in range(standbys + 2)]
        self._processes: dict[str, SimulatedProcess] = {}
        self._network = SimulatedNetwork(self, self._replica)
        self._saved = b""
        self._opened: list[TaskDatabase] = []
        record = JobRecord(job="simulation", partitions=partitions, state_dir="state", standby_replicas=standbys, incarnation=1)
        for partition in range(partitions):
            node = self._nodes[partition % len(self._nodes)]
            copy = Copy(name=record.new_name(partition), node=node.id, path=f"state/{partition:05}")
            record.tasks[partition] = PartitionRecord(epoch=record.new_epoch(), owner=copy.name, copies={copy.name: copy})
        self.save(record)
        self.supervisor: Supervisor
        self._supervisor(record).launch_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, t: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        for database in self._opened:
            database.close()
        for process in [*self._processes.values()]:
            self._kill(process)

    # ---- chance

    def happens(self, probability: float) -> bool:
        """Whether something happens now; never in a world without chance."""
        return self.random is not None and self.random.random() < probability

    def some(self, choices: Sequence[Any]) -> Any:
        """One of them; the last one in a world without chance."""
        return choices[-1] if self.random is None else self.random.choice(choices)

    # ---- the job

    def _shell(self, topology: Any, bindings: Any, settings: Any, *args: Any, **options: Any) -> TaskShell:
        def reader(source: Any, split: str, position: Any, ready: Any) -> NowReader:
            return NowReader(self, source.read(split, position))

        settings = replace(settings, edge_records=self._edge_records)
        return TaskShell(topology, bindings, settings, *args, **options, reader=reader)

    # ---- the fleet

    def save(self, record: JobRecord) -> None:
        """Write the record down."""
        self._saved = encode(record)

    def launch(self, partition: int, copy: Copy) -> None:
        """Start a process, if the node can be reached."""
        node = self._node(copy.node)
        if not node.is_there or node.is_cut_off:
            return
        for other in [p for p in self._processes.values() if p.node is node and p.path == copy.path]:
            self._kill(other)  # the new one would end it, as it has the lock
        place = node.disks.setdefault(copy.path, self._place(node, partition, copy.path))
        around = Surroundings(
            clock=lambda: self._seconds, place=lambda path, identity: place, open_task=lambda path, place: place.open(),
            shell=self._shell, turn_records=self.some((1, 2, 1024)),
        )  # fmt: skip
        wires = NetworkWires(self.post, copy.name)
        replica = Replica(lambda: self._job, copy.name, partition, Path(copy.path), wires, around)
        self._processes[copy.name] = SimulatedProcess(copy.name, node, copy.path, replica)

    def end(self, name: str) -> None:
        """Kill a process, if its node can be reached."""
        process = self._processes.get(name)
        if process is not None and process.node.is_there and not process.node.is_cut_off:
            self._kill(process)

    def _place(self, node: SimulatedNode, partition: int, path: str) -> Place:
        identity = task_identity(self._job.name, partition, self.partitions)
        return MemoryPlace(identity) if self._folder is None else FolderPlace(self._folder / node.id / path, identity)

    def _node(self, id: str) -> SimulatedNode:
        return next(node for node in self._nodes if node.id == id)

    def _supervisor(self, record: JobRecord) -> Supervisor:
        made = self.supervisor = Supervisor(record, self, self._seconds)
        made.custody.most_deaths = 1 << 30  # here they die all the time
        self._see_nodes()
        return made

    def _see_nodes(self) -> None:
        there = [node for node in self._nodes if node.is_there and not node.is_cut_off]
        self.supervisor.see_nodes([Node(id=node.id, free={"CPU": 100.0}) for node in there])

    def _kill(self, process: SimulatedProcess) -> None:
        """What was not committed is gone."""
        self._processes.pop(process.name, None)
        process.replica.end()
        process.replica.step()

    def post(self, call: Call) -> None:
        """A process sends something."""
        if call.kind == "packet":
            self._check_packet(call)
        self._network.post(call)

    def _replica(self, name: str) -> Replica | None:
        process = self._processes.get(name)
        return None if process is None else process.replica

    # ---- steps

    def run(self) -> Outcome:
        """Run to the end; AssertionError if it never comes to one, or if a rule is broken."""
        if self.random is not None:
            for _ in range(self.random.randint(1, STEPS)):
                self._pass()
                self._random_step(self.random)
                if self._is_over():
                    return self._outcome()
        self._heal()
        for _ in range(ROUNDS):
            self._pass()
            self._turn()
            if self._is_over():
                return self._outcome()
        reports = {partition: self.supervisor.report_of(partition) for partition in range(self.partitions)}
        raise AssertionError(f"the run is stuck: {self.supervisor.record}, {reports}")

    def _pass(self) -> None:
        self._steps += 1
        self._seconds += self._tempo

    def _random_step(self, random: Random) -> None:
        choice = random.random()
        processes = [*self._processes.values()]
        if choice < 0.47 and processes:
            self._step(random.choice(processes))
        elif choice < 0.78:
            self._network.deliver()
        elif choice < 0.96:
            self._talk(random.choice(self.supervisor.actors.names() or [""]))
            if random.random() < 0.5:
                self._supervise()
        elif choice < 0.972 and processes:
            victim = random.choice(processes)
            self._note(f"kill {victim.name}")
            self._kill(victim)
        elif choice < 0.976:
            self._new_supervisor()
        elif choice < 0.98:
            mode: Mode = random.choice(("pause", "run", "run", "stop"))
            self._note(mode)
            self.supervisor.want(mode)
        else:
            self._trouble(random.choice(self._nodes), random)

    def _trouble(self, node: SimulatedNode, random: Random) -> None:
        """A node is lost, cut off, or comes back. One at a time; a lost disk comes back, too."""
        if not node.is_there or node.is_cut_off:
            self._note(f"{node.id} is back")
            # What lived on there is found by the next process that has its disk, or hears that it is of the past.
            node.is_there, node.is_cut_off = True, False
        elif all(other.is_there and not other.is_cut_off for other in self._nodes):
            node.is_cut_off = random.random() < 0.5
            node.is_there = node.is_cut_off
            self._note(f"{node.id} is {'cut off' if node.is_cut_off else 'lost'}")
            if not node.is_there:
                for process in [p for p in self._processes.values() if p.node is node]:
                    self._kill(process)

    def _step(self, process: SimulatedProcess) -> None:
        process.replica.step()
        error = process.replica.report().error
        assert error is None, f"{process.name}: {error}"
        if process.replica.is_ended:
            self._note(f"{process.name} ends itself")
            self._processes.pop(process.name, None)
        self._check()

    def _talk(self, name: str) -> None:
        """The supervisor gives orders and hears a report; those of a node that is cut off are not heard."""
        orders = self.supervisor.orders_of(name)
        if orders is None:
            return
        process = self._processes.get(name)
        if process is not None and not process.node.is_cut_off:
            process.replica.post("orders", orders)
            self.supervisor.actors.reported(name, process.replica.report(), self._seconds)
        elif process is None and (actor := self.supervisor.actors.get(name)) and self._node(actor.node).is_there:
            self.supervisor.actors.died(name, "it is dead")

    def _supervise(self) -> None:
        before = self._epochs()
        self._see_nodes()
        self.supervisor.tick(self._seconds)
        for partition, epoch in self._epochs().items():
            assert epoch >= before[partition], f"the epoch of partition {partition} fell"
            if epoch != before[partition]:
                self._note(f"epoch {epoch & 0xFFFFFFFF} of {partition}: {self.supervisor.record.tasks[partition].owner}")

    def _epochs(self) -> dict[int, int]:
        return {partition: task.epoch for partition, task in self.supervisor.record.tasks.items()}

    def _new_supervisor(self) -> None:
        self._note("the supervisor is killed")
        record = decode(self._saved)
        record.incarnation += 1
        record.counter = 0
        self.save(record)
        self._supervisor(record)

    def _heal(self, *, for_good: bool = True) -> None:
        self.random = None if for_good else self.random
        for node in self._nodes:
            node.is_there, node.is_cut_off = True, False
        if self.supervisor.record.mode == "pause":
            self.supervisor.want("run")

    def _is_over(self) -> bool:
        """Whether the job has come to its end. One that was stopped is started again, from the latest copies that there are."""
        if not self.supervisor.is_over or self.supervisor.record.state != "stopped":
            return self.supervisor.is_over
        self._note("it is started again")
        self._heal(for_good=False)
        for process in [*self._processes.values()]:
            self._kill(process)
        copies = [
            (self._lineage(node, path), int(path[-5:]), node.id, path) for node in self._nodes for path in node.disks
        ]
        record = restarted(decode(self._saved), {number: (node, path) for _, number, node, path in sorted(copies)})
        self.save(record)
        self._supervisor(record).launch_all()
        return False

    def _turn(self) -> None:
        for process in [*self._processes.values()]:
            if process.name in self._processes:
                self._step(process)
        self._network.deliver_all()
        for name in self.supervisor.actors.names():
            self._talk(name)
        self._supervise()

    # ---- what must hold

    def _check_packet(self, call: Call) -> None:
        """Nothing leaves a task before each standby that is in sync has the commit."""
        process = self._processes.get(call.caller)
        record = decode(self._saved)
        packet: Packet = call.about[0]
        task = record.tasks[packet.message.sender]
        if process is None or task.owner != call.caller or task.epoch != packet.sender_epoch:
            return  # of the past: nobody takes it
        has = self._lineage(process.node, process.path)
        for copy in task.copies.values():
            if copy.in_sync and copy.name != task.owner:
                theirs = self._lineage(self._node(copy.node), copy.path)
                assert theirs >= has, f"{call.caller} lets out commit {has}, of which the standby {copy.name} has {theirs}"

    def _check(self) -> None:
        """After each step: no task expects more of a peer than that has committed."""
        tasks = {
            process.replica.partition: member.task
            for process in self._processes.values()
            if (member := process.replica.member) is not None
            and self.supervisor.record.tasks[process.replica.partition].owner == process.name
        }
        check_edges(tasks)

    def _lineage(self, node: SimulatedNode, path: str) -> tuple[int, int]:
        process = next((p for p in self._processes.values() if p.node is node and p.path == path), None)
        database = None if process is None else process.replica.open_database
        if database is not None:
            return lineage_of(database)
        with node.disks[path].open() as closed:
            return lineage_of(closed)

    # ---- what it gave

    def _outcome(self) -> Outcome:
        record = self.supervisor.record
        assert record.state == "finished", f"the job is {record.state}: {record.error}"
        outcome = Outcome()
        outcome.outputs |= outputs_of(self.sinks)
        for task in record.tasks.values():
            copy = task.copies[task.owner]
            self._opened = outcome.databases
            outcome.databases.append(self._node(copy.node).disks[copy.path].open())
        outcome.dropped |= dropped_of(outcome.databases)
        return outcome

    def _note(self, text: str) -> None:
        self.history.append(f"{self._steps} {text}")
