"""Ready-made aggregations: `apply(Count())` and the others, of streams, tables, windows and sessions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raystreams.operators.aggregations import Fold
from raystreams.stores.serdes import value_serde

from raystreams import (
    Aggregates,
    Aggregation,
    Collect,
    Count,
    EmitStrategy,
    First,
    KTable,
    Last,
    Materialized,
    Max,
    Mean,
    Min,
    SessionWindows,
    StoreMismatchError,
    StreamsBuilder,
    Sum,
    TimeWindows,
    Topic,
    Topology,
    TopologyTestDriver,
    Windowed,
)


@dataclass
class Reading:
    station: str
    celsius: float | None


@dataclass
class Stats:
    n: int
    mean: float | None
    low: float | None


READINGS = Topic("readings", key=str, value=Reading)


def stats() -> Aggregates[Reading, Stats]:
    return Aggregates(Stats, n=Count(), mean=Mean(lambda r: r.celsius), low=Min(lambda r: r.celsius))


def out(builder: StreamsBuilder, table: KTable[Any, Any]) -> Topology:
    table.to_stream().to("out")
    return builder.build()


def of_stream(aggregation: Aggregation[Any, Any], **options: Any) -> Topology:
    builder = StreamsBuilder()
    return out(builder, builder.stream("in").group_by_key().apply(aggregation, **options))


def of_table(aggregation: Aggregation[Any, Any], **options: Any) -> Topology:
    """Rows `(group, value)`, grouped."""
    builder = StreamsBuilder()
    return out(builder, builder.table("in").group_by(lambda key, row: (row[0], row[1])).apply(aggregation, **options))


def results(topology: Topology, values: list[Any], **options: Any) -> list[Any]:
    """What comes out for the values of one key."""
    with TopologyTestDriver(topology, **options) as driver:
        for time, value in enumerate(values):
            driver.input_topic("in").send(value, key="k", timestamp=time)
        return driver.output_topic("out").read_values()


def identity(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("aggregation", "wanted"),
    [
        (Count(), [1, 2, 3, 4]),
        (Sum(identity), [3, 4, 8, 13]),
        (Mean(identity), [3.0, 2.0, 8 / 3, 3.25]),
        (Min(identity), [3, 1, 1, 1]),
        (Max(identity), [3, 3, 4, 5]),
        (First(identity), [3, 3, 3, 3]),
        (Last(identity), [3, 1, 4, 5]),
        (Collect(), [[3], [3, 1], [3, 1, 4], [3, 1, 4, 5]]),
        (Collect(lambda v: v * 10), [[30], [30, 10], [30, 10, 40], [30, 10, 40, 50]]),
        (Aggregates(dict, n=Count(), top=Max(identity)), [
            {"n": 1, "top": 3}, {"n": 2, "top": 3}, {"n": 3, "top": 4}, {"n": 4, "top": 5},
        ]),
    ],
)  # fmt: skip
def test_each_record_of_a_stream_updates_the_result(aggregation: Aggregation[Any, Any], wanted: list[Any]) -> None:
    assert results(of_stream(aggregation), [3, 1, 4, 5]) == wanted


def test_the_time_of_a_result_is_the_largest_of_its_records() -> None:
    with TopologyTestDriver(of_stream(Count())) as driver:
        for time in (5, 9, 2):
            driver.input_topic("in").send("v", key="k", timestamp=time)

        assert [(r.value, r.timestamp) for r in driver.output_topic("out").read_all()] == [(1, 5), (2, 9), (3, 9)]


def test_what_is_none_changes_nothing_but_the_count() -> None:
    aggregation = Aggregates(list_of, n=Count(), total=Sum(first), mean=Mean(first), low=Min(first), all=Collect(first))

    assert results(of_stream(aggregation), [[None], [4.0], [None]]) == [
        [1, 0, None, None, []],
        [2, 4.0, 4.0, 4.0, [4.0]],
        [3, 4.0, 4.0, 4.0, [4.0]],
    ]


def list_of(**parts: Any) -> list[Any]:
    return list(parts.values())


def first(value: list[Any]) -> Any:
    return value[0]


def test_a_group_that_loses_the_smallest_goes_on_with_the_next() -> None:
    aggregation = Aggregates(list_of, low=Min(identity), top=Max(identity), first=First(identity), last=Last(identity))
    with TopologyTestDriver(of_table(aggregation)) as driver:
        rows = driver.input_topic("in")
        for time, (key, row) in enumerate([("a", ("g", 1)), ("b", ("g", 2)), ("c", ("g", 3)), ("a", None), ("c", ("g", 0))]):
            rows.send(row, key=key, timestamp=time)

        assert driver.output_topic("out").read_values() == [[1, 1, 1, 1], [1, 2, 1, 2], [1, 3, 1, 3], [2, 3, 2, 3], [0, 2, 2, 0]]


def test_a_row_moves_between_groups_and_a_group_without_rows_is_deleted() -> None:
    with TopologyTestDriver(of_table(Mean(identity), name="means")) as driver:
        for time, (key, row) in enumerate([("a", ("g", 1)), ("b", ("g", 3)), ("a", ("h", 1)), ("b", None)]):
            driver.input_topic("in").send(row, key=key, timestamp=time)
        found = [(r.key, r.value) for r in driver.output_topic("out").read_all()]

        assert found == [("g", 1.0), ("g", 2.0), ("g", 3.0), ("h", 1.0), ("g", None)]
        assert list(driver.store("means").all()) == [("h", 1.0)]


def test_floats_that_are_taken_away_leave_nothing_behind() -> None:
    with TopologyTestDriver(of_table(Sum(identity))) as driver:
        rows = [("z", ("g", 0.0)), ("a", ("g", 0.1)), ("b", ("g", 1e17)), ("c", ("g", 0.2))]
        for time, (key, row) in enumerate([*rows, ("b", None), ("a", None), ("c", None)]):
            driver.input_topic("in").send(row, key=key, timestamp=time)

        assert driver.output_topic("out").read_values()[-3:] == [0.1 + 0.2, 0.2, 0.0]


def test_what_is_not_a_number_goes_again_too() -> None:
    with TopologyTestDriver(of_table(Sum(identity))) as driver:
        given = [("a", 1.0), ("b", math.inf), ("c", -math.inf), ("b", 2.0), ("c", 3.0)]
        for time, (key, value) in enumerate(given):
            driver.input_topic("in").send(("g", value), key=key, timestamp=time)
        found = driver.output_topic("out").read_values()

        assert found[:2] == [1.0, math.inf]
        assert math.isnan(found[2])
        assert found[3:] == [-math.inf, 6.0]


def test_decimals_stay_decimals() -> None:
    assert results(of_stream(Sum(identity)), [Decimal("0.10"), Decimal("0.20")]) == [Decimal("0.10"), Decimal("0.30")]
    assert results(of_stream(Mean(identity)), [Decimal(1), Decimal(2)]) == [Decimal(1), Decimal("1.5")]


def test_results_and_collected_values_have_the_types_that_were_declared() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream(READINGS).group_by_key()
    grouped.apply(stats(), name="stats")
    grouped.apply(Collect(), name="all")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic(READINGS).send(Reading("s", 2.5), key="k", timestamp=1)

        assert driver.store("stats").get("k") == Stats(1, 2.5, 2.5)
        assert driver.store("all").get("k") == [Reading("s", 2.5)]


def test_a_window_is_given_out_once_when_it_closes_and_can_be_asked_for() -> None:
    builder = StreamsBuilder()
    windows = builder.stream(READINGS).group_by_key().windowed_by(TimeWindows(10))
    handle = Materialized.window("stats", retention=100)
    topology = out(
        builder, windows.emit_strategy(EmitStrategy.on_window_close()).apply(stats(), materialized=handle, name="means")
    )
    with TopologyTestDriver(topology) as driver:
        for value, time in [(1.0, 1), (3.0, 9), (7.0, 12), (9.0, 2)]:
            driver.input_topic(READINGS).send(Reading("s", value), key="k", timestamp=time)
        found = driver.output_topic("out").read_all()

        assert [(r.key, r.value, r.timestamp) for r in found] == [(Windowed("k", 0, 10), Stats(2, 2.0, 1.0), 9)]
        assert driver.store(handle).fetch("k", 0) == Stats(2, 2.0, 1.0)
        assert driver.dropped == {("means", "late"): 1}


def test_sessions_merge_and_those_that_were_merged_are_gone() -> None:
    builder = StreamsBuilder()
    sessions = builder.stream("in").group_by_key().windowed_by(SessionWindows(5, grace=100))
    topology = out(builder, sessions.apply(Aggregates(list_of, n=Count(), sum=Sum(identity), all=Collect()), name="s"))
    with TopologyTestDriver(topology) as driver:
        for value, time in [(1, 1), (2, 9), (4, 5)]:
            driver.input_topic("in").send(value, key="k", timestamp=time)
        found = driver.output_topic("out").read_all()

        assert [(r.key.start, r.key.end, r.value) for r in found] == [
            (1, 1, [1, 1, [1]]), (9, 9, [1, 2, [2]]), (1, 1, None), (9, 9, None), (1, 9, [3, 7, [1, 2, 4]]),
        ]  # fmt: skip
        assert list(driver.store("s").fetch("k")) == [(Windowed("k", 1, 9), [3, 7, [1, 2, 4]])]


def test_a_group_below_is_told_what_a_result_was() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in").group_by_key().apply(Count(), name="counts")
    topology = out(builder, counts.group_by(lambda key, n: (str(n), 1)).apply(Count(), name="keys"))
    with TopologyTestDriver(topology) as driver:
        for time, key in enumerate(["a", "b", "a"]):
            driver.input_topic("in").send("v", key=key, timestamp=time)

        found = [(r.key, r.value) for r in driver.output_topic("out").read_all()]
        assert found == [("1", 1), ("1", 2), ("1", 1), ("2", 1)]


def test_versions_of_results_are_kept() -> None:
    handle = Materialized.versioned("sums", history_retention=100)
    with TopologyTestDriver(of_stream(Sum(identity), materialized=handle)) as driver:
        for value, time in [(1, 10), (2, 20), (4, 30)]:
            driver.input_topic("in").send(value, key="k", timestamp=time)

        assert [driver.store(handle).get("k", as_of=t).value for t in (10, 29, 30)] == [1, 3, 7]


def test_state_survives_a_crash(tmp_path: Path) -> None:
    aggregation = Aggregates(list_of, mean=Mean(identity), low=Min(identity), all=Collect())
    with TopologyTestDriver(of_stream(aggregation), state_dir=tmp_path, auto_commit=False) as driver:
        driver.input_topic("in").send(4, key="k", timestamp=1)
        driver.commit()
        driver.input_topic("in").send(2, key="k", timestamp=2)
        driver.crash()
        driver.input_topic("in").send(6, key="k", timestamp=3)
        driver.commit()

        assert driver.output_topic("out").read_values() == [[4.0, 4, [4]], [3.0, 2, [4, 2]], [4.0, 2, [4, 2, 6]]]


def test_the_state_of_another_aggregation_is_refused(tmp_path: Path) -> None:
    with TopologyTestDriver(of_stream(Min(identity), name="a"), state_dir=tmp_path) as driver:
        driver.input_topic("in").send(4, key="k", timestamp=1)

    with pytest.raises(StoreMismatchError, match="min of"):
        TopologyTestDriver(of_stream(Max(identity), name="a"), state_dir=tmp_path)


@pytest.mark.parametrize("wrong", [len, 5, None, Count])
def test_apply_takes_an_aggregation(wrong: Any) -> None:
    with pytest.raises(TypeError, match="apply takes an aggregation"):
        of_stream(wrong)


def test_parts_that_make_no_sense_are_refused_where_they_are_given() -> None:
    async def later(value: int) -> int:
        return value

    with pytest.raises(ValueError, match="at least one part"):
        Aggregates(dict)
    with pytest.raises(TypeError, match="n= must be an aggregation"):
        Aggregates(dict, n=len)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="async def"):
        Sum(later)


ROWS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.none() | st.tuples(st.sampled_from("gh"), st.floats(-1e6, 1e6) | st.integers(-9, 9))),
    max_size=20,
)


@given(ROWS, st.sampled_from([1, 3]))
def test_a_grouped_table_equals_its_rows_counted_again(changes: list[Any], partitions: int) -> None:
    aggregation = Aggregates(
        list_of, n=Count(), total=Sum(identity), mean=Mean(identity), low=Min(identity), top=Max(identity), all=Collect()
    )
    rows: dict[str, Any] = {}
    with TopologyTestDriver(of_table(aggregation, name="groups"), partitions=partitions) as driver:
        for time, (key, row) in enumerate(changes):
            driver.input_topic("in").send(row, key=key, timestamp=time)
            rows[key] = row
        found = dict(driver.store("groups").all())
        told = driver.output_topic("out").read_table()

    groups: dict[str, list[Any]] = {}
    for row in rows.values():
        if row is not None:
            groups.setdefault(row[0], []).append(row[1])
    assert {key: [*value[:5], sorted(value[5])] for key, value in found.items()} == {
        key: [len(values), total(values), total(values) / len(values), min(values), max(values), sorted(values)]
        for key, values in groups.items()
    }
    assert {key: value for key, value in told.items() if value is not None} == found


def total(values: list[float]) -> float:
    return float(sum(map(Fraction, values)))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32)), st.data())
def test_a_sum_is_exact_whatever_was_there_before(values: list[float], data: st.DataObject) -> None:
    fold: Fold = Sum(identity).fold(value_serde(None), retracts=True)
    gone = data.draw(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32)))
    state = fold.initial()
    for value in data.draw(st.permutations([*values, *gone])):
        state = fold.add(state, value)
    for value in gone:
        state = fold.subtract(state, value)

    assert fold.finish(state) == math.fsum(values)


def test_the_name_is_that_of_operator_store_channel_and_drops() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by(identity_of_value, key=str)
    grouped.apply(Count(), name="counts")
    grouped.windowed_by(TimeWindows(5)).apply(Count(), name="windows")
    rows = builder.table("in-rows", materialized=Materialized.key_value("rows"))
    rows.group_by(lambda key, value: (value, value), key=str).apply(Count(), name="groups")
    topology = builder.build()

    assert list(topology.channels) == ["counts-repartition", "windows-repartition", "groups-repartition"]
    assert set(topology.stores) == {"rows", "counts-parts", "counts", "windows-parts", "windows", "groups-parts", "groups"}
    assert {"counts", "windows", "groups"} <= set(topology.nodes)
    assert topology.unnamed_stateful == ()


def identity_of_value(key: Any, value: str) -> str:
    return value


@pytest.mark.parametrize("kind", ["key_value", "window"])
def test_caching_gives_the_last_result_of_each_key_at_a_commit(kind: str) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    handle: Any = getattr(Materialized, kind)("sums", caching=True)
    windowed = grouped.windowed_by(TimeWindows(100)) if kind == "window" else grouped
    topology = out(builder, windowed.apply(Sum(identity), materialized=handle))
    with TopologyTestDriver(topology, auto_commit=False) as driver:
        for time, value in enumerate([1, 2, 4]):
            driver.input_topic("in").send(value, key="k", timestamp=time)
        driver.commit()

        assert driver.output_topic("out").read_values() == [7]
