"""The topologies of the vectors of the runtime specification (`vectors/runtime.json`), by their id."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raystreams.operators.grouped import KGroupedStream
from raystreams.operators.grouped_table import KGroupedTable

from raystreams import (
    EmitStrategy,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topic,
    Topology,
)
from tests.operators.aggregation_texts import concatenated, empty, merged, minus, plus, summed, zero

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "runtime.json").read_text())

DAY = 86_400_000
AnyWindows = TimeWindows | SlidingWindows | SessionWindows

Shape = Callable[[StreamsBuilder], KTable[Any, Any]]


def grouped(builder: StreamsBuilder, topic: str = "in") -> KGroupedStream[Any, Any]:
    return builder.stream(topic).group_by_key()


def topology(shape: Shape) -> Topology:
    """The changes of what `shape` makes, on topic `out`."""
    builder = StreamsBuilder()
    shape(builder).to_stream().to("out")
    return builder.build()


class Plain:
    """A key that equals only itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class PlainSerde:
    """A serde for it."""

    def encode(self, value: Plain | str) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes) -> Plain:
        return Plain(data.decode())


def by_value(key: Any, value: str) -> tuple[str, str]:
    return value, value


def by_value_or_nothing(key: str, value: str) -> tuple[str | None, str] | None:
    return {"nullkey": (None, value), "NULLPAIR": None}.get(key, (value, value))


def _table(shape: Callable[[KTable[Any, Any]], KTable[Any, Any]], *, versioned: bool = False) -> Shape:
    history = Materialized.versioned("history", history_retention=300_000) if versioned else None
    return lambda builder: shape(builder.table("in", materialized=history))


def _without_equality(selector: Callable[[Any, Any], Any]) -> Shape:
    source = Topic("in", key=PlainSerde(), value=PlainSerde())
    return lambda builder: builder.table(source).group_by(selector, key=PlainSerde()).count()


def _text_sums(grouped: KGroupedTable[Any, Any]) -> KTable[Any, Any]:
    return grouped.aggregate(zero, plus, minus, materialized=Materialized.key_value("store"))



TABLES: dict[str, Shape] = {
    "B1": _table(lambda t: _text_sums(t.group_by(lambda k, v: (k, v)))),
    "B2": _table(lambda t: _text_sums(t.group_by(by_value_or_nothing))),
    "B3": _table(lambda t: _text_sums(t.group_by(by_value_or_nothing)), versioned=True),
    "B4": _table(lambda t: t.group_by(by_value).count()),
    "B5": _table(lambda t: t.group_by(by_value).count(), versioned=True),
    "B6": _table(
        lambda t: t.group_by(lambda k, v: (k[0], k[1])).aggregate(
            empty, concatenated, lambda key, value, aggregate: aggregate.replace(value, "")
        )
    ),
    "B7": _table(lambda t: t.group_by(lambda k, v: (k, v)).count()),
    "B9": _without_equality(lambda k, v: (v, v)),
    "B10": _table(
        lambda t: t.group_by(lambda k, v: (k, int(float(v)))).reduce(
            lambda a, b: a + b, lambda a, b: a - b, materialized=Materialized.key_value("store")
        )
    ),
    "B11": _table(lambda t: t.group_by(by_value).count(materialized=Materialized.key_value("store"))),
    "B12": _table(lambda t: _text_sums(t.group_by(by_value))),
    "B13": _without_equality(lambda k, v: (k, v)),
}

_store = Materialized.key_value("store")

STREAMS: dict[str, Shape] = {
    "A1": lambda b: grouped(b).count(materialized=_store),
    "A2": lambda b: grouped(b).reduce(summed, materialized=_store),
    "A3": lambda b: grouped(b).aggregate(zero, plus, materialized=_store),
}


@dataclass(frozen=True)
class ByWindow:
    """An aggregation by windows: `count`, `reduce` or `aggregate` from a text on."""

    windows: AnyWindows
    of: str = "aggregate"
    on_close: bool = False
    start: Callable[[], str] = zero
    reducer: Callable[[str, str], str] = summed
    retention: int | None = None

    def __call__(self, builder: StreamsBuilder) -> KTable[Any, Any]:
        windowed: Any = grouped(builder).windowed_by(self.windows)
        if self.on_close:
            windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
        sessions = isinstance(self.windows, SessionWindows)
        kind: Any = Materialized.session if sessions else Materialized.window
        materialized = kind("store", retention=self.retention)
        if self.of == "count":
            return windowed.count(materialized=materialized)  # type: ignore[no-any-return]  # of either kind of windows
        if self.of == "reduce":
            return windowed.reduce(self.reducer, materialized=materialized)  # type: ignore[no-any-return]  # as above
        mergers = [merged] if sessions else []
        return windowed.aggregate(self.start, plus, *mergers, materialized=materialized)  # type: ignore[no-any-return]  # as above

    def closing(self) -> ByWindow:
        """The same, on window close."""
        return ByWindow(self.windows, self.of, True, self.start, self.reducer, self.retention)


def hopping(grace: int) -> ByWindow:
    return ByWindow(TimeWindows(10, advance=5, grace=grace))


def sliding(difference: int, grace: int = 0, of: str = "aggregate") -> ByWindow:
    return ByWindow(SlidingWindows(difference, grace=grace), of)


def sessions(gap: int, of: str = "count", grace: int = 0, **options: Any) -> ByWindow:
    return ByWindow(SessionWindows(gap, grace=grace), of, **options)


_by_500 = ByWindow(TimeWindows(500), "count")
_skipping = ByWindow(TimeWindows(10, advance=5, grace=90), start=empty, retention=100)

TIME: dict[str, ByWindow] = {
    "C1": hopping(100),
    "C2": hopping(100).closing(),
    "C3": hopping(5).closing(),
    "C4": hopping(5).closing(),
    "C5": hopping(100),
    "C6": _skipping,
    "C7": _skipping.closing(),
    "C8": ByWindow(TimeWindows(10, grace=90), start=empty),
    "C9": hopping(5).closing(),
    "C10": hopping(5).closing(),
    "C11": hopping(5),
    "C12": hopping(5).closing(),
    "C13": hopping(5).closing(),
    "C14": _by_500,
    "C15": _by_500.closing(),
    "C16": ByWindow(TimeWindows(500), "reduce"),
    "C17": ByWindow(TimeWindows(500), "reduce").closing(),
    "C18": ByWindow(TimeWindows(500)).closing(),
    "C19": ByWindow(TimeWindows(500, grace=100), "count"),
    "C20": hopping(0),
    "C21": hopping(0).closing(),
    "C22": hopping(5),
    "C23": hopping(5).closing(),
}

SLIDING: dict[str, ByWindow] = {
    "D1": sliding(10, 5),
    "D2": sliding(10, 5).closing(),
    "D3": sliding(10, 5, "reduce"),
    "D4": sliding(10, 5, "reduce").closing(),
    "D5": sliding(50),
    "D6": sliding(50).closing(),
    "D7": sliding(5),
    "D8": sliding(5).closing(),
    "D9": sliding(50),
    "D10": sliding(50).closing(),
    "D11": sliding(10, 50),
    "D12": sliding(500, 2000, "count"),
    "D13": sliding(500, 2000, "count"),
    "D14": sliding(10),
    "D15": sliding(10).closing(),
    "D16": sliding(10, 5),
    "D17": sliding(10, 5).closing(),
    "D18": sliding(10, 90),
    "D19": sliding(10, 90).closing(),
}

SESSIONS: dict[str, Shape] = {
    "E1": sessions(500),
    "E2": sessions(500).closing(),
    "E3": sessions(500, "reduce"),
    "E4": sessions(500, "aggregate"),
    "E5": sessions(500, "aggregate").closing(),
    "E6": sessions(30),
    "E7": sessions(30, "reduce", reducer=lambda a, b: f"{a}:{b}"),
    "E8": sessions(300_000, retention=900_000),
    "E9": sessions(300_000),
    "E10": sessions(300_000),
    "E11": sessions(10),
    "E12": sessions(10, grace=1),
    "E13": sessions(300_000).closing(),
    "E14": sessions(300_000).closing(),
}


def cogrouped(
    windows: AnyWindows | None = None, *, second: Callable[[Any, Any, str], str] | None = plus,
    first: Callable[[Any, Any, str], str] = plus, start: Callable[[], str] = zero,
) -> Shape:  # fmt: skip
    """Streams `in` and `other` in one table."""

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        together = grouped(builder).cogroup(first)
        if second is not None:
            together = together.cogroup(grouped(builder, "other"), second)
        if windows is None:
            return together.aggregate(start, materialized=Materialized.key_value("store"))
        mergers = [merged] if isinstance(windows, SessionWindows) else []
        return together.windowed_by(windows).aggregate(start, *mergers)

    return shape


COGROUPS: dict[str, Shape] = {
    "E15": cogrouped(SessionWindows(500)),
    "E16": cogrouped(SessionWindows(100, grace=DAY)),
    "E17": cogrouped(SessionWindows(100, grace=DAY), second=minus),
    "F1": cogrouped(first=concatenated, second=None, start=empty),
    "F2": cogrouped(first=concatenated, second=None, start=empty),
    "F3": cogrouped(first=concatenated, second=concatenated, start=empty),
    "F4": cogrouped(first=concatenated, second=concatenated, start=empty),
    "F5": cogrouped(first=minus),
    "F6": cogrouped(TimeWindows(500, advance=200)),
    "F7": cogrouped(TimeWindows(500), second=minus),
    "F8": cogrouped(SlidingWindows(500, grace=2000)),
}

ON_SECOND: dict[str, Sequence[str]] = dict.fromkeys(COGROUPS, ("B", "2")) | dict.fromkeys(("E16", "F1", "F2"), ())
"""The values that come from the second stream."""


def _held(suppressed: Suppressed) -> Shape:
    return lambda builder: builder.table("in").suppress(suppressed)


def _final(by: ByWindow) -> Shape:
    return lambda builder: by(builder).suppress(Suppressed.until_window_closes())


SUPPRESSED: dict[str, Shape] = {
    "S1": _held(Suppressed.until_time_limit(0)),
    "S2": _held(Suppressed.until_time_limit(2)),
    "S3": _held(Suppressed.until_time_limit(DAY, max_records=1)),
    "S4": _final(ByWindow(TimeWindows(2, grace=1), "count")),
    "S5": _final(ByWindow(TimeWindows(2, grace=2), "count")),
    "S6": _final(sliding(5, 15, "count")),
    "S7": _final(sessions(5)),
}

SHAPES: dict[str, Shape] = {**STREAMS, **TABLES, **TIME, **SLIDING, **SESSIONS, **COGROUPS, **SUPPRESSED}

NOT_OURS = {"B8": "there is no setting for upgrades from Kafka 3.3"}
