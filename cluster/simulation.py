"""`check_crashes`: does a topology give the same outcome wherever its tasks crash, and however late their messages are?

The job is run once undisturbed, then once for each seed in a harmful world (`simulated_run.py`). What must be equal:

    topics                the lists of records of each partition, as what comes there is a function of the inputs alone; but
    of several writers    (sub-topologies) the set of records, as each writer goes on at its own pace
    behind look-ups       the set of records (n:1 joins of streams: answers come at any time, results leave in order)
    behind loops          the set of records, if nothing on the way keeps state; otherwise as behind
    foreign-key joins     of tables: the last value of each key. An update may overtake the answer to the one before, whose
                          result is then left out
    stores                all rows that users can read; behind the two above without their times

A failure names its seed; `seeds=[17]` runs that one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from random import Random
from typing import Any

from raystreams.cluster.simulated_cluster import SimulatedCluster
from raystreams.cluster.simulated_run import Outcome, SimulatedRun, SplitInput, by_topic
from raystreams.cluster.task import PartitionTask
from raystreams.operators.graph import ChannelSink, ChannelSource, Node, TopicSink, Topology
from raystreams.operators.options import Topic
from raystreams.operators.record import Record
from raystreams.stores.errors import RaystreamsError

SHOWN = 12
"""Steps of the history that a failure shows."""


def check_crashes(
    topology: Topology,
    inputs: Sequence[tuple[str | Topic[Any, Any], Record[Any, Any]]],
    *,
    partitions: int = 2,
    seeds: int | Iterable[int] = 100,
) -> None:
    """Run a topology under crashes, repeats and delays; AssertionError, with the seed, if that changes its outcome.

    Each topic's inputs are one source, in their order. `seeds` is how many worlds to try, or which. Each is tried twice: with
    tasks that crash, and in a cluster with a standby of each, whose nodes and supervisor are lost, too.
    """
    if not isinstance(topology, Topology):
        raise TypeError(f"topology must be what StreamsBuilder.build() returns, got {topology!r}")
    if partitions < 1:
        raise ValueError(f"partitions must be at least 1, got {partitions}")
    worlds = [*range(seeds)] if isinstance(seeds, int) else [*seeds]
    check_splits(topology, by_topic(inputs), partitions=partitions, seeds=worlds)
    check_cluster(topology, by_topic(inputs), partitions=partitions, seeds=worlds, standbys=1)


def check_splits(
    topology: Topology,
    splits: Sequence[SplitInput],
    *,
    partitions: int,
    seeds: Iterable[int],
    task: type[PartitionTask] = PartitionTask,
    edge_records: int = 64,
) -> None:
    """`check_crashes` over given splits; tests give another class of task to see that its faults are found."""
    calm = SimulatedRun(topology, splits, partitions, None, edge_records=edge_records)
    compare = Comparison(calm)
    expected = compare.what_counts(calm.run())
    for seed in seeds:
        run = SimulatedRun(topology, splits, partitions, Random(seed), task=task, edge_records=edge_records)
        try:
            outcome = run.run()
        except (AssertionError, RaystreamsError) as error:
            raise AssertionError(f"seed={seed}, partitions={partitions}: {error}\n{_tail(run)}") from error
        difference = compare.difference(expected, compare.what_counts(outcome))
        if difference is not None:
            raise AssertionError(f"seed={seed}, partitions={partitions}: {difference}\n{_tail(run)}")


def check_cluster(
    topology: Topology,
    splits: Sequence[SplitInput],
    *,
    partitions: int,
    seeds: Iterable[int],
    standbys: int = 0,
    edge_records: int = 64,
    folder: Path | None = None,
) -> None:
    """`check_splits` in a cluster: with nodes, standbys and a supervisor (`simulated_cluster.py`). State is in memory, or
    below a folder for each seed."""
    compare = Comparison(SimulatedRun(topology, splits, partitions, None))
    with SimulatedCluster(topology, splits, partitions, None, edge_records=edge_records) as calm:
        expected = compare.what_counts(calm.run())
    for seed in seeds:
        disk = None if folder is None else folder / str(seed)
        with SimulatedCluster(
            topology, splits, partitions, Random(seed), standbys=standbys, edge_records=edge_records, folder=disk
        ) as run:
            where = f"seed={seed}, partitions={partitions}, standbys={standbys}, in a cluster"
            try:
                difference = compare.difference(expected, compare.what_counts(run.run()))
            except (AssertionError, RaystreamsError) as error:
                raise AssertionError(f"{where}: {error}\n{_tail(run)}") from error
            if difference is not None:
                raise AssertionError(f"{where}: {difference}\n{_tail(run)}")


class Comparison:
    """What of an outcome must not depend on when things happen."""

    def __init__(self, run: SimulatedRun) -> None:
        self._topology = topology = run.topology
        in_order = {name for name, node in run.tasks[0].execution.runtimes.items() if node.releases_in_order}
        self._loose: set[str] = set()
        self._converging: set[str] = set()
        for channel in topology.channels.values():
            if channel.feedback:
                self._loose |= _below(topology, [channel.source])
                below = _below(topology, [channel.source], stop=in_order)
                if channel.is_table or any(topology.nodes[name].stores for name in below):
                    self._converging |= below
        self._keys = [record.key for split in run.splits for record in split.records if record.key is not None]

    def what_counts(self, outcome: Outcome) -> dict[str, Any]:
        """By name of a topic or store: what must be equal."""
        found: dict[str, Any] = {}
        for (topic, partition), records in sorted(outcome.outputs.items()):
            found[f"topic {topic!r}, partition {partition}"] = self._of_topic(topic)(records)
        keys = [*self._keys, *(r.key for records in outcome.outputs.values() for r in records if r.key is not None)]
        for name, builder in self._topology.stores.items():
            for partition, database in enumerate(outcome.databases):
                store = builder.read_committed(database)
                if any(name in node.stores for node in self._nodes(self._converging)):
                    store = store.plain() if hasattr(store, "plain") else store
                rows = _rows(store, keys)
                if rows is not None:
                    found[f"store {name!r}, partition {partition}"] = rows
        if not self._loose:
            found["what is left out"] = outcome.dropped
        return found

    def difference(self, expected: dict[str, Any], got: dict[str, Any]) -> str | None:
        """Say what differs; None if nothing does."""
        for name in [*expected, *(name for name in got if name not in expected)]:
            before, now = expected.get(name, _NOTHING), got.get(name, _NOTHING)
            if before != now and not (_is_empty(before) and _is_empty(now)):
                return f"{name} differs: undisturbed {_short(before, now)}, now {_short(now, before)}"
        return None

    def _of_topic(self, topic: str) -> Callable[[list[Record[Any, Any]]], Any]:
        written = {name: _written_by(node) for name, node in self._topology.nodes.items()}
        # Nobody names it: records that failed, or a topic that a function chooses.
        writers = {name for name, topics in written.items() if topic in topics} or set(written)
        if writers & self._converging:
            return _last_of_each_key
        parts = {self._topology.sub_topology_of[name] for name in writers}
        return list if len(parts) == 1 and not writers & self._loose else _as_set

    def _nodes(self, names: Iterable[str]) -> Iterator[Node]:
        return (self._topology.nodes[name] for name in names)


def _written_by(node: Node) -> set[Any]:
    sinks = (node.operator, getattr(node.operator, "late_records_to", None))
    return {sink.topic for sink in sinks if isinstance(sink, TopicSink)}


def _below(topology: Topology, nodes: Iterable[str], stop: Set[str] = frozenset()) -> set[str]:
    """The nodes and all that their records reach, over channels and stores too; not the nodes of `stop` and beyond."""
    sources: dict[str, list[str]] = {}
    for name, node in topology.nodes.items():
        if isinstance(node.operator, ChannelSource):
            sources.setdefault(node.operator.channel, []).append(name)
    for channel in topology.channels.values():
        sources.setdefault(channel.name, []).append(channel.source)
    reached: set[str] = set()
    waiting = list(nodes)
    while waiting:
        name = waiting.pop()
        if name in reached or name in stop:
            continue
        reached.add(name)
        waiting += topology.children[name]
        operator = topology.nodes[name].operator
        if isinstance(operator, ChannelSink):
            waiting += sources.get(operator.channel, [])
        # What reads a store that is written here depends on it too.
        for store in topology.nodes[name].stores:
            waiting += [other.name for other in topology.nodes.values() if store in other.stores]
    return reached


def _rows(store: Any, keys: list[Any]) -> Any:
    """What users can read of a store; None for those of operators, whose rows are bytes."""
    if hasattr(store, "all"):
        return list(store.all())
    if hasattr(store, "fetch_range"):
        return list(store.fetch_range(None, None))
    if not hasattr(store, "history"):
        return None
    found = []
    for key in keys:
        try:
            versions = list(store.history(key))
        except (TypeError, ValueError, RaystreamsError):
            continue  # the key of another topic
        if versions:
            found.append((key, versions))
    unique: list[Any] = []
    for row in found:
        if row not in unique:
            unique.append(row)
    return sorted(unique, key=repr)


def _as_set(records: list[Record[Any, Any]]) -> Any:
    return sorted(records, key=repr)


def _last_of_each_key(records: list[Record[Any, Any]]) -> Any:
    last: list[tuple[Any, Any]] = []
    for record in reversed(records):
        if all(record.key != key or type(record.key) is not type(key) for key, _ in last):
            last.append((record.key, record.value))
    return sorted(((key, value) for key, value in last if value is not None), key=lambda row: repr(row[0]))


_NOTHING: list[Any] = []


def _is_empty(rows: Any) -> bool:
    return not rows


def _short(rows: Any, others: Any) -> str:
    """The part of some rows from the first difference on."""
    if not isinstance(rows, list) or not isinstance(others, list):
        return repr(rows)
    first = next((n for n, (a, b) in enumerate(zip(rows, others, strict=False)) if a != b), min(len(rows), len(others)))
    return f"{len(rows)} rows, from {first} on {rows[first : first + 2]!r}"


def _tail(run: SimulatedRun | SimulatedCluster) -> str:
    return "history: " + ", ".join(run.history[-SHOWN:])
