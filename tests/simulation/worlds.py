"""Topologies that send records between tasks in every way there is, and random inputs for them.

Values are `{"k": a key, "n": a number}`. Topics "s" and "w" are streams, "t" and "u" tables with deletions. Times are out of
order, and many are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from raystreams.cluster.simulated_run import SplitInput

from raystreams import (
    Consumed,
    DeadLetter,
    EmitStrategy,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)

KEYS = "abcd"

Build = Callable[[StreamsBuilder], None]


def k(value: Any) -> Any:
    return value["k"]


def by_k(key: Any, value: Any) -> Any:
    return value["k"]


def pair(left: Any, right: Any) -> Any:
    return {"k": left["k"], "n": left["n"], "left": left, "right": right}


def append(key: Any, value: Any, aggregate: Any) -> Any:
    return [*aggregate, value["n"]]


def as_of() -> Any:
    return Materialized.versioned("versions", history_retention=1000)


def rekeyed_joined_as_of(b: StreamsBuilder) -> None:
    b.stream("s").select_key(by_k).left_join(b.table("t", materialized=as_of()), pair).to("out")


def joined_with_grace(b: StreamsBuilder) -> None:
    table = b.table("t", materialized=as_of())
    b.stream("s").select_key(by_k).left_join(table, pair, joined=Joined(grace=10)).to("out")


def reordered_table(b: StreamsBuilder) -> None:
    b.stream("s").left_join(b.table("t", consumed=Consumed(reorder=8)), pair).to("out")


def lists_by_key(b: StreamsBuilder) -> None:
    b.stream("s").group_by(by_k).aggregate(list, append).to_stream().to("out")


def windows_on_close(b: StreamsBuilder) -> None:
    windows = b.stream("s").group_by(by_k).windowed_by(TimeWindows(10, grace=5))
    windows.emit_strategy(EmitStrategy.on_window_close()).aggregate(list, append).to_stream().to("out")


def suppressed_then_grouped(b: StreamsBuilder) -> None:
    counts = b.stream("s").group_by_key().windowed_by(TimeWindows(10, grace=5)).count()
    final = counts.suppress(Suppressed.until_window_closes()).to_stream()
    final.select_key(lambda window, count: window.key).group_by_key().count().to_stream().to("out")


def sessions(b: StreamsBuilder) -> None:
    windows = b.stream("s").group_by(by_k).windowed_by(SessionWindows(4, grace=3))
    windows.aggregate(list, append, lambda key, a, c: [*a, *c]).to_stream().to("out")


def sliding_windows(b: StreamsBuilder) -> None:
    b.stream("s").group_by(by_k).windowed_by(SlidingWindows(5, grace=4), late_records_to="late").count().to_stream().to("out")


def rolling(b: StreamsBuilder) -> None:
    b.stream("s").group_by(by_k).rolling(6, grace=4).aggregate(list, append, lambda value, a: [value["n"], a]).to("out")


def deduplicated(b: StreamsBuilder) -> None:
    b.stream("s").select_key(by_k).deduplicate(lambda key, value: value["n"] % 4, within=5).to("out")


def cogrouped(b: StreamsBuilder) -> None:
    first, second = b.stream("s").group_by(by_k), b.stream("w").group_by_key()
    first.cogroup(append).cogroup(second, append).aggregate(list).to_stream().to("out")


def streams_joined(b: StreamsBuilder) -> None:
    left, right = b.stream("s").select_key(by_k), b.stream("w").select_key(by_k)
    left.outer_join(right, lambda a, c: [a, c], windows=JoinWindows(before=5, after=5, grace=5)).to("out")


def tables_joined(b: StreamsBuilder) -> None:
    b.table("t").outer_join(b.table("u"), lambda a, c: [a, c]).to_stream().to("out")


def table_regrouped(b: StreamsBuilder) -> None:
    grouped = b.table("t").group_by(lambda key, value: (value["k"], value))
    grouped.aggregate(lambda: 0, lambda key, v, a: a + v["n"], lambda key, v, a: a - v["n"]).to_stream().to("out")


def global_table(b: StreamsBuilder) -> None:
    joined = b.stream("s").left_join(b.global_table("t"), pair, key_selector=by_k)
    joined.group_by(by_k).count().to_stream().to("out")


def foreign_key_join(b: StreamsBuilder) -> None:
    docs = Materialized.key_value("docs")
    b.table("t").left_join(b.table("u"), pair, foreign_key=k, materialized=docs).to_stream().to("out")


def stream_to_rows(b: StreamsBuilder) -> None:
    b.stream("s").left_join(b.table("t"), pair, table_foreign_key=k).to("out")


def lookups_in_a_chain(b: StreamsBuilder) -> None:
    t, u = b.table("t", materialized=as_of()), b.table("u")
    once = b.stream("s").left_join(t, pair, stream_foreign_key=k)
    twice = once.left_join(u, pair, stream_foreign_key=k)
    thrice = twice.left_join(t, pair, stream_foreign_key=lambda value: KEYS[value["n"] % 4])
    thrice.group_by(by_k).aggregate(list, append).to_stream().to("out")


def two_writers(b: StreamsBuilder) -> None:
    b.stream("s").select_key(by_k).repartition().to("between")
    b.stream("w").select_key(by_k).repartition().to("between")
    b.stream("between").group_by_key().aggregate(list, append).to_stream().to("out")


def loop(b: StreamsBuilder) -> None:
    both = b.stream("s").merge(b.stream("loop"))
    both.filter(lambda key, v: v["n"] > 1).map(lambda key, v: (v["k"], {"k": key, "n": v["n"] // 2})).to("loop")
    both.to("out")


def dead_letters(b: StreamsBuilder) -> None:
    def fails(value: Any) -> Any:
        if value["n"] % 3 == 0:
            raise ValueError("three")
        return value

    b.stream("s").map_values(fails, on_error=DeadLetter("dead")).group_by(by_k).count().to_stream().to("out")


class Sums(Processor[Any, Any]):
    """Gives out the sum of its store every 5 ms of stream time."""

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.store("sums")
        context.schedule(5, self.tick, clock="stream")

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", sum(n for _, n in self.store.all()), now))

    def process(self, record: Record[Any, Any]) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + record.value["n"])


def processor(b: StreamsBuilder) -> None:
    b.add_state_store(Stores.key_value("sums"))
    b.stream("s").process(Sums, stores=["sums"]).to("out")


WORLDS: dict[str, Build] = {
    build.__name__: build
    for build in (
        rekeyed_joined_as_of, joined_with_grace, reordered_table, lists_by_key, windows_on_close,
        suppressed_then_grouped, sessions, sliding_windows, rolling, deduplicated, cogrouped, streams_joined,
        tables_joined, table_regrouped, global_table, foreign_key_join, stream_to_rows, lookups_in_a_chain, two_writers,
        loop, dead_letters, processor,
    )
}  # fmt: skip


def topology_of(name: str) -> Topology:
    builder = StreamsBuilder()
    WORLDS[name](builder)
    return builder.build()


def topics_of(topology: Topology) -> list[str]:
    """The topics that need inputs."""
    return [topic for node in topology.sources for topic in getattr(node.operator, "topics", ())]


def random_splits(random: Random, topics: list[str], *, longest: int = 12) -> list[SplitInput]:
    """One to three splits a topic, each disordered in its own way; tables with deletions, some with a `disorder`."""
    splits = []
    for topic in topics:
        is_table = topic in ("t", "u")
        for _ in range(random.randint(1, 3)):
            records: list[Record[Any, Any]] = []
            time = 0
            for _ in range(random.randint(0, longest)):
                time += random.randint(0, 4)
                at = max(0, time - random.choice((0, 0, random.randint(0, 8))))
                value = {"k": random.choice(KEYS), "n": random.randrange(100)}
                deleted = is_table and random.random() < 0.2
                records.append(Record(random.choice(KEYS), None if deleted else value, at))
            disorder = random.choice((0, 0, 5)) if is_table else 0
            splits.append(SplitInput(topic=topic, records=records, disorder=disorder))
    random.shuffle(splits)
    return splits
