"""A golden case's nodes as a topology, run by the test driver."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import raystreams as rs

Node = dict[str, Any]
Row = list[Any]


def number(value: Any) -> Any:
    """A number from any value: itself, its field v, or 0."""
    if value is None or isinstance(value, (str, list, tuple)):
        return 0
    if isinstance(value, dict):
        v = value.get("v")
        return v if isinstance(v, int) else 0
    return value


def text(x: Any) -> str | None:
    return None if x is None else str(x)


def field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def value_mapper(fn: Any) -> Callable[[Any], Any]:
    if fn == "same":
        return lambda value: value
    if "field" in fn:
        return lambda value: field(value, fn["field"])

    def add(value: Any) -> Any:
        if isinstance(value, dict):
            return {**value, "v": number(value) + fn["add"]}
        return value + fn["add"] if isinstance(value, int) else value

    return add


def predicate(fn: Any) -> Callable[[Any, Any], bool]:
    if "gt" in fn:
        return lambda key, value: number(value) > fn["gt"]
    return lambda key, value: number(value) % fn["mod"][0] == fn["mod"][1]


def key_mapper(fn: Any) -> Callable[[Any, Any], Any]:
    if "const" in fn:
        return lambda key, value: fn["const"]
    return lambda key, value: text(field(value, fn["field"]))


def plus(a: Any, b: Any) -> Any:
    return number(a) + number(b)


def minus(a: Any, b: Any) -> Any:
    return number(a) - number(b)


def pair(left: Any, right: Any) -> Any:
    return [left, right]


def append(node: Node) -> Callable[[Any, Any, Any], Any]:
    def adder(key: Any, value: Any, aggregate: Any) -> Any:
        result = [*aggregate, value]
        return None if len(result) >= node.get("drop_at", 10**9) else result

    return adder


def remove_one(key: Any, value: Any, aggregate: Any) -> Any:
    result = list(aggregate)
    if value in result:
        result.remove(value)
    else:
        result.append("missing")
    return result


def merge_lists(key: Any, a: Any, b: Any) -> Any:
    return [*a, *b]


def materialized(node: Node) -> Any:
    m, name = node.get("materialized"), node["id"] + "-store"
    if not m:
        return None
    if "versioned" in m:
        v = m["versioned"]
        return rs.Materialized.versioned(name, history_retention=v["retention"], segment_interval=v.get("segment"))
    return rs.Materialized.in_memory(name) if "memory" in m else rs.Materialized.key_value(name)


def windows_of(w: Node) -> Any:
    if "session" in w:
        return rs.SessionWindows(w["session"], grace=w["grace"])
    if "sliding" in w:
        return rs.SlidingWindows(w["sliding"], grace=w["grace"])
    return rs.TimeWindows(w["size"], advance=w.get("advance"), grace=w["grace"])


def build(nodes: list[Node]) -> rs.Topology:
    """The topology that the nodes describe; raises what describing raises."""
    builder = rs.StreamsBuilder()
    made: dict[Any, Any] = {}
    kinds: dict[Any, Any] = {}
    for node in nodes:
        made[node["id"]], kinds[node["id"]] = add_node(builder, made, kinds, node)
    return builder.build()


def add_node(builder: rs.StreamsBuilder, made: dict[Any, Any], kinds: dict[Any, Any], node: Node) -> tuple[Any, Any]:
    """Describe one node; returns (object, kind of object)."""
    op, kind = node["op"], kinds.get(node.get("in"))
    source: Any = made.get(node.get("in"))
    other: Any = made.get(node.get("other"))
    join = {"inner": "join", "left": "left_join", "outer": "outer_join"}[node.get("type", "inner")]
    options: dict[str, Any] = {"materialized": materialized(node)} if kind == "table" else {}
    joined: dict[str, Any] = {"joined": rs.Joined(grace=node["grace"])} if "grace" in node else {}
    match op:
        case "stream":
            return builder.stream(node["topic"]), "stream"
        case "table":
            return builder.table(node["topic"], materialized=materialized(node)), "table"
        case "global_table":
            return builder.global_table(node["topic"], materialized=materialized(node)), "global"
        case "to":
            (source.to_stream() if kind in ("table", "windowed table") else source).to(node["topic"])
            return None, None
        case "filter" | "filter_not":
            return getattr(source, op)(predicate(node["fn"]), **options), kind
        case "map_values":
            mapper = value_mapper(node["fn"])
            safe = mapper if kind != "stream" else lambda value: None if value is None else mapper(value)
            return source.map_values(safe, **options), kind
        case "flat_map_values":
            return source.flat_map_values(lambda value: [value] * node["times"]), "stream"
        case "select_key":
            return source.select_key(key_mapper(node["fn"])), "stream"
        case "repartition" | "to_stream":
            return getattr(source, op)(), "stream"
        case "merge":
            return source.merge(other), "stream"
        case "to_table":
            return source.to_table(materialized=materialized(node)), "table"
        case "stream_table_join":
            return getattr(source, join)(other, pair, **joined), "stream"
        case "stream_fk_join":
            side = "table_foreign_key" if "table_foreign_key" in node else "stream_foreign_key"
            joined[side] = lambda value: text(field(value, node[side]))
            return getattr(source, join)(other, pair, **joined), "stream"
        case "stream_global_join":
            return getattr(source, join)(other, pair, key_selector=key_mapper(node["key"])), "stream"
        case "stream_stream_join":
            windows = rs.JoinWindows(before=node["before"], after=node["after"], grace=node["grace"])
            return getattr(source, join)(other, pair, windows=windows), "stream"
        case "table_table_join":
            return getattr(source, join)(other, pair, materialized=materialized(node)), "table"
        case "fk_join":
            options["foreign_key"] = lambda value: text(field(value, node["fk"]))
            return getattr(source, join)(other, pair, **options), "table"
        case "group_by_key":
            return source.group_by_key(), "grouped stream"
        case "group_by":
            select = key_mapper(node["fn"])
            if kind == "table":
                return source.group_by(lambda key, value: (select(key, value), value)), "grouped table"
            return source.group_by(select), "grouped stream"
        case "windowed":
            windowed = source.windowed_by(windows_of(node["window"]))
            if node.get("emit") == "close":
                windowed = windowed.emit_strategy(rs.EmitStrategy.on_window_close())
            return windowed, "session" if "session" in node["window"] else "time"
        case "count" | "reduce" | "aggregate":
            return aggregate(source, kind, node), "windowed table" if kind in ("session", "time") else "table"
        case "cogroup":
            return cogroup(source, other, node), "windowed table" if "window" in node else "table"
        case "suppress":
            return source.suppress(suppressed(node)), kind
    raise ValueError(op)


def suppressed(node: Node) -> rs.Suppressed:
    if "limit" not in node:
        return rs.Suppressed.until_window_closes()
    full: dict[str, Any] = {}
    if "max_records" in node:
        full = {"max_records": node["max_records"], "when_full": {"emit": "emit", "shutdown": "fail"}[node["full"]]}
    return rs.Suppressed.until_time_limit(node["limit"], **full)


def aggregate(source: Any, kind: Any, node: Node) -> Any:
    keep = materialized(node)
    if "retention" in node:
        keep = (rs.Materialized.session if kind == "session" else rs.Materialized.window)(retention=node["retention"])
    if node["op"] == "count":
        return source.count(materialized=keep)
    if node["op"] == "reduce":
        return source.reduce(plus, *([minus] if kind == "grouped table" else []), materialized=keep)
    more: dict[Any, list[Any]] = {"grouped table": [remove_one], "session": [merge_lists]}
    extra = more.get(kind, [])
    return source.aggregate(list, append(node), *extra, materialized=keep)


def cogroup(first: Any, second: Any, node: Node) -> Any:
    grouped = first.cogroup(append({})).cogroup(second, lambda key, value, a: [*a, [value]])
    if "window" not in node:
        return grouped.aggregate(list, materialized=materialized(node))
    merger = [merge_lists] if "session" in node["window"] else []
    return grouped.windowed_by(windows_of(node["window"])).aggregate(list, *merger)


def plain(x: Any) -> Any:
    """Keys and values as JSON has them: a windowed key is [key, start, end]."""
    if isinstance(x, rs.Windowed):
        return [x.key, x.start, x.end]
    if isinstance(x, (list, tuple)):
        return [plain(i) for i in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return x


def run(case: Node, *, state_dir: Path | None = None, crash: bool = False, partitions: int = 1) -> list[Row]:
    """The rows that the case gives. `crash`: commit after every second input, crash after every third."""
    try:
        topology = build(case["nodes"])
    except (rs.TopologyError, ValueError):
        return [["error", "build"]]
    sinks = list(dict.fromkeys(node["topic"] for node in case["nodes"] if node["op"] == "to"))
    out: list[Row] = []

    def drain(step: int) -> None:
        for sink in sinks:
            rows = driver.output_topic(sink).read_all()
            out.extend([step, sink, plain(r.key), plain(r.value), r.timestamp] for r in rows)

    with rs.TopologyTestDriver(topology, state_dir=state_dir, partitions=partitions, auto_commit=not crash) as driver:
        for step, (topic, key, value, timestamp) in enumerate(case["inputs"]):
            try:
                driver.input_topic(topic).send(value, key=key, timestamp=timestamp)
            except rs.RaystreamsError:
                return [*out, ["error", step]]
            if crash and step % 2:
                driver.commit()
            drain(step)
            if crash and step % 3 == 2:
                driver.crash()
        if crash:
            driver.commit()
            drain(-1)
    return out


def independent_of_partitions(case: Node) -> bool:
    """No stream time in it: no short retention, grace or window, and no group that gathers keys."""
    retentions = [((n.get("materialized") or {}).get("versioned") or {}).get("retention", 1000) for n in case["nodes"]]
    ops = {n["op"] for n in case["nodes"]}
    graceful = any("grace" in n for n in case["nodes"])
    return min(retentions) >= 1000 and not graceful and not ops & {"group_by", "stream_stream_join"}


def by_key(rows: list[Row]) -> dict[str, list[Row]]:
    """The list of each key."""
    lists: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        lists[json.dumps(row[2])].append(row)
    return dict(lists)


def without_steps(rows: list[Row]) -> Iterator[Row]:
    """The rows without the input that caused them: with crashes they come out when they are committed."""
    return (row[1:] for row in rows)
