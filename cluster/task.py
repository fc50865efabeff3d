"""PartitionTask: everything that a job does for one partition, as a plain synchronous object. No I/O of its own but its
database, no thread, no Ray, no clock but the one that it is given.

    offer     a split's records, or a peer's message, into the channels
    process   run waiting records, in the order that the data says (channels.py)
    commit    one atomic write of state, positions, clocks, outbox; returns what may now leave
    receive   a peer's message: its runs, what it has committed of ours, how far its edges are

Shells drive it: the test driver, the local runner, the Ray actor, and the simulator of crashes. Source: design, section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from raystreams.cluster.channels import Channel, Inputs
from raystreams.cluster.exchange import EdgeState, IncomingEdge, Message, Outgoing, OutgoingEdge, SelfEdge, unsent
from raystreams.cluster.host import EdgeWriter, TaskHost
from raystreams.cluster.outbox import Outbox
from raystreams.cluster.outputs import SinkOutputs
from raystreams.cluster.restored import outgoing_edges, split_channel
from raystreams.cluster.rows import Rows
from raystreams.cluster.task_settings import TaskSettings
from raystreams.cluster.wiring import Part, Split, edges_of, upstream_first, wire
from raystreams.operators.execution import Execution
from raystreams.operators.graph import Topology
from raystreams.operators.record import Headers, Process
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import SerdeError
from raystreams.stores.values import NO_HEADERS

CHUNK = 1024
"""Records that one sub-topology may process before the next one gets its turn."""


class PartitionTask:
    """One partition of a job."""

    def __init__(
        self,
        topology: Topology,
        partition: int,
        partitions: int,
        database: TaskDatabase,
        *,
        splits: Sequence[Split] = (),
        wall_clock: Callable[[], int],
        settings: TaskSettings | None = None,
    ) -> None:
        self.topology, self.partition, self.partitions, self.database = topology, partition, partitions, database
        self.settings = settings or TaskSettings()
        self._rows = Rows(database, "_task")
        self.outputs = SinkOutputs(self._rows, Rows(database, "_sinks"), self.settings, partition, partitions)
        self.outbox = Outbox(database)
        self.host = TaskHost(self, self._rows, wall_clock)
        self.splits: dict[str, Channel] = {}
        self.incoming: dict[tuple[str, int], IncomingEdge] = {}
        self.outgoing: dict[tuple[str, int], OutgoingEdge] = {}
        self.self_edges: dict[str, SelfEdge] = {}
        self.ended_channels: set[str] = {name for (_, name), _ in self._rows.values("ended channel")}
        self._ended_sources: set[str] = {name for (_, name), _ in self._rows.values("ended source")}
        parts = wire(topology, splits, partition, partitions)
        for part in parts:
            if part.ingest is not None:
                self._make_senders(part.ingest.name, part.ingest.key, part.ingest.value)
        for channel in topology.channels.values():
            for edge in edges_of(topology, channel):
                self._make_senders(edge, channel.key, channel.value)
        self.execution = Execution(topology, self.host)
        self.inputs = [self._make_inputs(part) for part in parts]
        self._parts = {part.name: inputs for part, inputs in zip(parts, self.inputs, strict=True)}
        self._connect(parts)
        self._upstream_first = upstream_first(topology)
        self._events = self._committed_events = 0
        self._turn = -1
        self._states: dict[int, dict[str, EdgeState]] = {}
        epoch, number = self._rows.get("lineage", default=[0, 0])
        self.lineage: tuple[int, int] = (epoch, number)
        """(epoch, number) of the last commit: two databases of a task that have the same one have the same rows."""
        self._cursors = {edge: incoming.cursor for edge, incoming in self.incoming.items()}
        for source in self._ended_sources:
            self.execution.end(source, quietly=True)
        fed = {channel.source for inputs in self.inputs for channel in inputs.channels}
        sources = {name for part in parts if part.ingest is None for name in part.order}
        for source in sorted(sources - fed - self._ended_sources):
            # No split of its topic is read here: it has ended before it began.
            self._ended_sources.add(source)
            self.execution.end(source)

    # ---- what drives it

    def offer(
        self, split: str, keys: Sequence[Any], values: Sequence[Any], timestamps: Sequence[int], positions: Sequence[Any],
        headers: Iterable[Headers] | None = None,
    ) -> None:
        """Take records of a split, in its order; `split` is `Split.id`."""
        self.splits[split].offer(keys, values, timestamps, headers or [NO_HEADERS] * len(keys), positions)

    def process(self, budget: int = 1 << 62) -> int:
        """Process up to `budget` waiting records; returns how many. Less than that: nothing more can be processed now."""
        done, host = 0, self.host
        on_stream_time = self.execution.punctuations.on_stream_time
        rested, count = 0, len(self.inputs)
        while rested < count and done < budget:
            # Goes on with the next one where the last call came to its budget, so that each has its turn.
            number = self._turn = (self._turn + 1) % count
            inputs = self.inputs[number]
            only_feedback = self.is_full(inputs)
            host.active = inputs
            punctuate = None
            if on_stream_time and inputs.name.startswith("sub-topology"):
                sub = number - (len(self.inputs) - len(self.topology.sub_topologies))
                punctuate = partial(host.punctuate, sub)
            before = inputs.events
            try:
                done += inputs.run(min(CHUNK, budget - done), host.begin, punctuate, only_feedback=only_feedback)
            except (SerdeError, TypeError) as error:
                raise host.at_its_record(error) from error
            rested = rested + 1 if inputs.events == before else 0
        return done

    def commit(self, *, sync: bool = False, tell: bool = True) -> Outgoing:
        """Write everything that happened since the last commit, at once; returns what may leave now.

        With `tell` also a message to each peer; a shell that keeps account of what its peers have makes its own.
        """
        self.give_out_held()
        for id, channel in self.splits.items():
            self._rows.put("split", id, value=[channel.position, channel.taken, channel.finished, channel.count])
        cursors = {edge: incoming.cursor for edge, incoming in self.incoming.items()}
        for (name, sender), incoming in self.incoming.items():
            self._rows.put("cursor", name, sender, value=[incoming.cursor, incoming.channel.finished])
        for name, edge in self.self_edges.items():
            self._rows.put("self", name, value=[int(edge.channel.position) + 1, edge.next, edge.channel.finished])
            self.outbox.keep_waiting(name, *edge.draw())
        for (name, peer), outgoing in self.outgoing.items():
            self.outbox.keep(peer, outgoing.draw())
            self._rows.put("number", name, peer, value=outgoing.next)
        for name in self.ended_channels:
            self._rows.put("ended channel", name, value=True)
        for name in self._ended_sources:
            self._rows.put("ended source", name, value=True)
        batches = self.outputs.draw()
        self.host.save(self.inputs)
        self.lineage = (max(self.lineage[0], self.settings.epoch), self.lineage[1] + 1)
        self._rows.put("lineage", value=self.lineage)
        operations = self.database.commit(sync=sync)
        self._cursors = cursors
        self._committed_events = self._count_events()
        return Outgoing(messages=self.messages() if tell else (), batches=batches, operations=operations)

    def give_out_held(self) -> bool:
        """Let caches give out what waits for a commit; tells if there was something."""
        if not self.execution.holds_until_commit:
            return False
        given = False
        for sub in self._upstream_first:
            self._between_records_of(sub.id)
            given = self.execution.give_out_held(sub.id) or given
        return given

    def messages(self) -> list[Message]:
        """For each peer all that it should know now: safe to repeat, reorder or lose."""
        return [self.message_to(peer) for peer in range(self.partitions) if peer != self.partition]

    def message_to(
        self, peer: int, *, limit: int = 64, after: Mapping[str, int] | None = None, most_bytes: int = 1 << 62
    ) -> Message:
        """What `peer` should know as of the last commit, with at most `limit` runs of each edge.

        `after` gives, by channel, the first number that the peer lacks, and what is before is left out. A message ends with
        the run that brings it to `most_bytes`.
        """
        edges = {name: edge for (name, to), edge in self.outgoing.items() if to == peer}
        if self._may_tell_how_far and not any(edge.fresh for edge in edges.values()):
            self._states[peer] = self.outbox.edge_states(self, edges)
        return Message(
            sender=self.partition,
            receiver=peer,
            runs=tuple(unsent(edges, after or {}, limit, most_bytes)),
            committed={name: number for (name, sender), number in self._cursors.items() if sender == peer},
            edges=self._states.get(peer, {}),
        )

    def receive(self, message: Message, *, connecting: bool = False) -> bool:
        """Take a peer's message; returns whether anything in it was new.

        When two tasks meet (again), each takes a message of the other that was made after that, `connecting`: then they
        compare who has committed what. Raises LostCommitsError if one of them has less than the other knows.
        """
        new = False
        peer = message.sender
        for name, number in message.committed.items():
            outgoing = self.outgoing[name, peer]
            self.outbox.check(self.partition, outgoing, number, connecting=connecting)
            done = outgoing.acknowledge(number)
            self.outbox.forget(peer, done)
            new = new or bool(done)
        for run in message.runs:
            incoming = self.incoming[run.channel, peer]
            expected = incoming.expected
            incoming.accept(run)
            new = new or incoming.expected != expected
        for name, state in message.edges.items():
            incoming = self.incoming[name, peer]
            before = (incoming.channel.bound, incoming.channel.idle)
            incoming.advance(state)
            new = new or before != (incoming.channel.bound, incoming.channel.idle)
        return new

    def punctuate(self, now: int) -> int:
        """Fire what is due by the wall clock; returns how many fired."""
        self.host.between_records()
        return self.execution.punctuations.wall_clock_passed(now)

    def time_passes(self, sub_topology: int, timestamp: int) -> None:
        """No later input of a sub-topology will be older than `timestamp`: close what that closes."""
        self._between_records_of(sub_topology)
        self.execution.time_passes(sub_topology, timestamp)

    def let_time_pass(self) -> bool:
        """Where all inputs have caught up with live sources, close what their watermarks close; returns if that was new."""
        new = False
        for sub in self._upstream_first:
            inputs = self._inputs_of(sub.id)
            time = inputs.passed_time()
            if time is not None and self.give_out_held():
                new, time = True, inputs.passed_time()  # none if that has brought records here
            if time is not None:
                inputs.passed = time
                self.time_passes(sub.id, time)
                new = True
        return new

    def took_ends(self) -> bool:
        """Whether inputs have ended since this was asked last."""
        events = self._count_events()
        changed, self._events = events != self._events, events
        return changed

    def _count_events(self) -> int:
        return sum(inputs.events for inputs in self.inputs)

    @property
    def _may_tell_how_far(self) -> bool:
        # How far an edge is may only be told once what made it so is committed (design, section 6: order), and once
        # what the passing of time closes here is on its way, too.
        if self._committed_events != self._count_events():
            return False
        return all(self._inputs_of(sub.id).passed_time() is None for sub in self._upstream_first)

    def is_held_up(self, channel: Channel) -> bool:
        """Whether what a split feeds has to wait for its receivers, so that nothing more should be read."""
        return any(channel in inputs.channels and self.is_full(inputs) for inputs in self.inputs)

    def is_full(self, inputs: Inputs) -> bool:
        """Whether a channel that these inputs feed has more unfinished records than it may.

        Not while those are of the same order as what comes next: their receiver may be waiting just for that. So what is
        full always waits for something of a smaller order than what waits for it, and never in a circle.
        """
        records, size = self.settings.edge_records, self.settings.edge_bytes
        return any(
            (edge.waiting >= records or edge.size >= size) and edge.oldest < inputs.bound() for edge in self._fed[inputs.name]
        )

    def end_feedback(self) -> bool:
        """Nothing moves any more, anywhere, and all sources have ended: end the loops whose other inputs have.

        Only the shell can see that. Returns whether there was one; others may follow when it has ended.
        """
        ended = False
        for inputs in self.inputs:
            open_ = [channel for channel in inputs.channels if not channel.finished]
            if open_ and all(channel.feedback for channel in open_):
                ended = True
                for channel in open_:
                    channel.end()
        return ended

    # ---- what shells ask

    @property
    def waiting(self) -> int:
        """Records in the channels, not yet processed."""
        return sum(len(channel.records) for inputs in self.inputs for channel in inputs.channels)

    @property
    def finished(self) -> bool:
        """Whether all inputs have ended."""
        return all(channel.finished for inputs in self.inputs for channel in inputs.channels)

    @property
    def unacknowledged(self) -> int:
        """Records sent and not yet committed by their receivers."""
        return sum(edge.unacknowledged + len(edge.fresh) for edge in self.outgoing.values())

    @property
    def dropped(self) -> dict[tuple[str, str], int]:
        """Records left out so far, by operator and reason."""
        return self.host.dropped

    # ---- inside

    def _between_records_of(self, sub_topology: int) -> None:
        self.host.active = self._inputs_of(sub_topology)
        self.host.between_records()

    def _inputs_of(self, sub_topology: int) -> Inputs:
        return self._parts[f"sub-topology {sub_topology}"]

    def _make_senders(self, name: str, key: Any, value: Any) -> None:
        peers = [peer for peer in range(self.partitions) if peer != self.partition]
        self.outgoing |= outgoing_edges(self._rows, self.outbox, name, key, value, peers)

    def _make_inputs(self, part: Part) -> Inputs:
        inputs = Inputs(part.name, lambda channel: self._channel_ended(part, channel))
        channels: list[Channel] = []
        order: dict[int, tuple[int, ...]] = {}
        for entry in part.splits:
            split = entry.split
            process = self._ingest(part) if part.ingest is not None else self.execution.sources[entry.source]
            channel = split_channel(self._rows, split, entry.source, process)
            order[id(channel)] = (*part.order[entry.source], 0, split.index)
            self.splits[split.id] = channel
            channels.append(channel)
        for edges in part.edges:
            described = edges.channel
            for sender in edges.senders:
                process = self.execution.sources[described.source]
                channel = Channel(
                    described.name, described.source, process, topic=edges.topic, sender=sender, feedback=described.feedback
                )
                order[id(channel)] = (*part.order[described.source], 1, sender)
                self._make_receiver(channel, described.key, described.value)
                channels.append(channel)
        inputs.add(channels, lambda channel: order[id(channel)])
        inputs.patient = self.settings.patient
        return inputs

    def _make_receiver(self, channel: Channel, key: Any, value: Any) -> None:
        name, sender = channel.name, channel.sender
        if sender == self.partition:
            cursor, number, channel.finished = self._rows.get("self", name, default=[1, 1, False])
            edge = self.self_edges[name] = SelfEdge(channel, key, value, next=number)
            edge.restore(self.outbox.waiting(name), cursor)
            if name in self.ended_channels:
                channel.end()
        else:
            cursor, channel.finished = self._rows.get("cursor", name, sender, default=[1, False])
            self.incoming[name, sender] = IncomingEdge(channel, key, value, cursor=cursor)
        if channel.finished:
            channel.end()

    def _connect(self, parts: list[Part]) -> None:
        """Tell self-edges who writes them, and everything else which global tables it waits for."""
        readers = [self._parts[part.name] for part in parts if part.global_sources]
        for part, inputs in zip(parts, self.inputs, strict=True):
            self.host.restore_time(inputs)
            if part.ingest is None and not part.global_sources:
                inputs.waits_for = readers
        for part in parts:
            if part.ingest is not None:
                self.host.writers[part.ingest.name] = EdgeWriter(self._parts[part.name], None, -1)
        for channel in self.topology.channels.values():
            for name, sub in edges_of(self.topology, channel).items():
                self.host.writers[name] = EdgeWriter(self._parts[f"sub-topology {sub}"], channel, sub)
        self._fed: dict[str, list[OutgoingEdge | SelfEdge]] = {inputs.name: [] for inputs in self.inputs}
        for name, writer in self.host.writers.items():
            if writer.channel is None or not writer.channel.feedback:
                edges = [self.outgoing.get((name, peer)) for peer in range(self.partitions)]
                self._fed[writer.inputs.name] += [edge for edge in (self.self_edges.get(name), *edges) if edge is not None]
        for name, own in self.self_edges.items():
            own.channel.upstream = partial(self.host.bound_of, name)
            own.channel.sender_is_idle = partial(self.host.is_idle, name)

    def _ingest(self, part: Part) -> Process:
        """The process that sends a split's records to the tasks of their keys, or to all tasks."""
        assert part.ingest is not None
        sender = self.host.ingest(part.ingest)
        return sender.send_to_all if part.to_all else sender.send

    def _channel_ended(self, part: Part, channel: Channel) -> None:
        inputs = self._parts[part.name]
        if any(not c.finished for c in inputs.channels if c.source == channel.source):
            return
        self.host.between_records()
        if part.ingest is not None:
            self.host.end_channel(part.ingest.name)
        else:
            self._ended_sources.add(channel.source)
            self.execution.end(channel.source)
