"""The task without a shell: input is offered, processed and committed, and the exact list of what leaves is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster.exchange import Message
from raystreams.cluster.task import PartitionTask
from raystreams.cluster.task_settings import TaskSettings
from raystreams.cluster.wiring import Split, edges_of, wire
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine
from raystreams.stores.serdes import key_serde, partition_of

from raystreams import Record, StreamsBuilder, Topology


def key_of(partition: int, partitions: int = 2) -> str:
    """A key that lives in a partition."""
    encode = key_serde(None).encode
    return next(key for key in map(str, range(100)) if partition_of(encode(key), partitions) == partition)


HERE, THERE = key_of(0), key_of(1)


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").select_key(lambda key, value: value).group_by_key().count().to_stream().to("out")
    return builder.build()


class Tasks:
    """Two tasks that hear of each other only what a test delivers. Task 0 owns the one split."""

    def __init__(self, topology: Topology | None = None, **settings: Any) -> None:
        self.topology = topology or counting()
        self.settings = TaskSettings(**settings)
        self.engines = [MemoryEngine(), MemoryEngine()]
        self.tasks = [self.open(0), self.open(1)]
        self.offered = 0
        self.meet()

    def meet(self) -> None:
        """Task 1 reads no split: it tells at once that nothing will come from it."""
        self.tasks[0].receive(self.tasks[1].messages()[0], connecting=True)

    def open(self, partition: int) -> PartitionTask:
        database = TaskDatabase.open(None, {"partition": partition}, engine=self.engines[partition])
        splits = [Split(topic="in", name="s", index=0, owner=0)]
        return PartitionTask(
            self.topology, partition, 2, database, splits=splits, wall_clock=lambda: 0, settings=self.settings
        )

    def crash(self, partition: int) -> None:
        self.tasks[partition].database.close()
        self.tasks[partition] = self.open(partition)
        self.meet()

    def offer(self, *values: Any) -> None:
        times = range(self.offered, self.offered + len(values))
        self.offered += len(values)
        self.tasks[0].offer("in/s", [None] * len(values), values, times, times)

    def deliver(self, message: Message) -> bool:
        return self.tasks[message.receiver].receive(message)


def written(outgoing: Any) -> list[tuple[Any, Any, int]]:
    return [(r.key, r.value, r.timestamp) for batch in outgoing.batches for r in batch.records]


def sent(outgoing: Any) -> list[tuple[int, int, int]]:
    return [(message.receiver, run.first, run.count) for message in outgoing.messages for run in message.runs]


def test_nothing_leaves_before_the_commit() -> None:
    pair = Tasks()
    pair.offer(THERE, HERE, THERE)
    assert pair.tasks[0].process() == 3 + 1
    assert sent_now(pair.tasks[0]) == []
    outgoing = pair.tasks[0].commit()

    assert sent(outgoing) == [(1, 1, 2)]
    assert written(outgoing) == [(HERE, 1, 1)]


def sent_now(task: PartitionTask) -> list[Any]:
    return [run for message in task.messages() for run in message.runs]


def test_a_peer_processes_what_it_receives_once_and_acknowledges_what_it_has_committed() -> None:
    pair = Tasks()
    pair.offer(THERE, THERE)
    pair.tasks[0].process()
    (message,) = pair.tasks[0].commit().messages

    assert pair.deliver(message)
    assert not pair.deliver(message)
    assert pair.tasks[1].process() == 2
    (early,) = pair.tasks[1].messages()
    pair.deliver(early)
    assert pair.tasks[0].unacknowledged == 2
    outgoing = pair.tasks[1].commit()
    assert written(outgoing) == [(THERE, 1, 0), (THERE, 2, 1)]
    pair.deliver(outgoing.messages[0])
    assert pair.tasks[0].unacknowledged == 0
    assert sent(pair.tasks[0].commit()) == []


def test_a_sender_that_crashed_sends_its_outbox_again_and_reads_on_from_its_position() -> None:
    pair = Tasks()
    pair.offer(THERE, THERE)
    pair.tasks[0].process()
    lost = pair.tasks[0].commit()
    pair.offer(THERE)
    pair.tasks[0].process()
    pair.crash(0)

    assert pair.tasks[0].splits["in/s"].position == 1
    assert sent_now(pair.tasks[0]) == list(lost.messages[0].runs)
    assert pair.tasks[0].unacknowledged == 2


def test_a_receiver_that_crashed_takes_again_what_it_had_not_committed() -> None:
    pair = Tasks()
    pair.offer(THERE, THERE)
    pair.tasks[0].process()
    (message,) = pair.tasks[0].commit().messages
    pair.deliver(message)
    pair.tasks[1].process(1)
    pair.tasks[1].commit()
    pair.tasks[1].process()
    pair.crash(1)

    assert pair.deliver(message)
    assert pair.tasks[1].process() == 1
    assert written(pair.tasks[1].commit()) == [(THERE, 2, 1)]


def test_records_that_wait_on_a_self_edge_survive_a_crash() -> None:
    pair = Tasks()
    pair.offer(HERE, HERE, HERE)
    pair.tasks[0].process(4)  # both parts have their turn: three records in, one of them counted
    first = written(pair.tasks[0].commit())
    pair.crash(0)
    pair.tasks[0].process()
    rest = written(pair.tasks[0].commit())

    assert [*first, *rest] == [(HERE, 1, 0), (HERE, 2, 1), (HERE, 3, 2)]
    assert rest


def test_ends_travel_and_a_task_is_finished_when_all_inputs_have_ended() -> None:
    pair = Tasks()
    pair.offer(THERE)
    pair.tasks[0].splits["in/s"].end()
    for _ in range(4):
        for task in pair.tasks:
            task.process()
            for message in task.commit().messages:
                pair.deliver(message)

    assert [task.finished for task in pair.tasks] == [True, True]
    assert [task.waiting + task.unacknowledged for task in pair.tasks] == [0, 0]
    pair.crash(1)
    assert pair.tasks[1].finished


@pytest.mark.parametrize("limit", [{"edge_records": 2}, {"edge_bytes": 10}])
def test_a_task_whose_edge_is_full_stops_what_feeds_it_until_its_peer_has_committed(limit: dict[str, Any]) -> None:
    pair = Tasks(None, **limit)
    pair.offer(*[THERE] * 10)
    split = pair.tasks[0].splits["in/s"]
    pair.tasks[0].process(2)
    pair.tasks[0].commit()
    assert pair.tasks[0].process() == 0 and pair.tasks[0].is_held_up(split)
    pair.deliver(pair.tasks[0].messages()[0])
    pair.tasks[1].process()
    pair.deliver(pair.tasks[1].commit().messages[0])

    assert not pair.tasks[0].is_held_up(split)
    assert pair.tasks[0].process(2) == 2


def test_an_edge_is_not_full_of_records_of_the_order_that_comes_next() -> None:
    """Its receiver may wait for another channel from the same task, which has come just as far."""
    pair = Tasks(edge_records=2)
    pair.tasks[0].offer("in/s", [None] * 6, [THERE] * 6, [7] * 6, range(6))

    assert pair.tasks[0].process() == 6


def test_batches_for_sinks_are_kept_until_all_sinks_have_written_them() -> None:
    pair = Tasks()
    pair.offer(HERE)
    pair.tasks[0].process()
    (batch,) = pair.tasks[0].commit().batches
    pair.crash(0)
    outputs = pair.tasks[0].outputs
    (again,) = outputs.pending("out")

    assert (again.id, again.sequence, list(again.records)) == (batch.id, 1, [Record(HERE, 1, 0)])
    outputs.was_written("out", 0, 2, 1, "position")
    pair.tasks[0].commit()
    assert len(outputs.pending("out")) == 1
    outputs.was_written("out", 1, 2, 1, None)
    pair.tasks[0].commit()
    pair.crash(0)
    assert pair.tasks[0].outputs.pending("out") == [] and pair.tasks[0].outputs.position("out", 0) == "position"


def test_a_commit_that_fails_loses_nothing_committed() -> None:
    class Full(MemoryEngine):
        full = False

        def write(self, operations: Any, /, *, sync: bool) -> None:
            if self.full:
                raise OSError("no space left on device")
            super().write(operations, sync=sync)

    pair = Tasks()
    pair.engines[0] = engine = Full()
    pair.tasks[0] = pair.open(0)
    pair.meet()
    pair.offer(HERE)
    pair.tasks[0].process()
    pair.tasks[0].commit()
    pair.offer(HERE)
    pair.tasks[0].process()
    engine.full = True
    with pytest.raises(OSError, match="no space"):
        pair.tasks[0].commit()
    engine.full = False
    pair.crash(0)

    assert pair.tasks[0].splits["in/s"].position == 0


def test_splits_go_to_tasks_in_turn_and_through_ingest_stages_where_the_key_counts() -> None:
    builder = StreamsBuilder()
    builder.stream("plain").to("copy")
    builder.stream("keyed").group_by_key().count().to_stream().to("out")
    builder.global_table("everywhere")
    topology = builder.build()
    splits = [
        Split(topic=topic, name=str(index), index=index, owner=index % 2)
        for topic in ("plain", "keyed", "everywhere")
        for index in range(3)
    ]
    parts = wire(topology, splits, 1, 2)
    alone = wire(topology, splits, 0, 1)

    assert [(part.name, len(part.splits), part.to_all) for part in parts if part.ingest] == [
        ("ingest of keyed", 1, False), ("ingest of everywhere", 1, True)
    ]  # fmt: skip
    assert [len(part.splits) for part in parts if not part.ingest] == [1, 0, 0]
    assert not any(part.ingest for part in alone)


def test_the_second_sub_topology_that_writes_a_channel_has_an_edge_of_its_own() -> None:
    builder = StreamsBuilder()
    builder.stream("a").to("both", name="from-a")
    builder.stream("b").to("both", name="from-b")
    builder.stream("both").to("out")
    topology = builder.build()

    assert list(edges_of(topology, topology.channels["both"])) == ["both", next(
        f"both from {name}" for name, node in topology.nodes.items()
        if getattr(node.operator, "channel", None) == "both" and topology.sub_topology_of[name] == 1
    )]  # fmt: skip
