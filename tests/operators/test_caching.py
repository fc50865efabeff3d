"""Record caches, `Materialized.*(caching=True)`: fewer results in between, the same ones in the end (spec-stores 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import (
    EmitStrategy,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from tests.operators.aggregation_texts import concatenated, empty, plus, read, send, sent
from tests.operators.runtime_vectors import Shape, by_value, grouped, topology


def counts(caching: bool = True) -> Shape:
    return lambda b: grouped(b).count(materialized=Materialized.key_value("store", caching=caching))


def rows(caching: bool = True) -> Shape:
    return lambda b: b.table("in", materialized=Materialized.key_value("store", caching=caching))


def by_hand(shape: Shape) -> TopologyTestDriver:
    return TopologyTestDriver(topology(shape), auto_commit=False)


def test_of_each_key_the_last_change_comes_out_at_the_commit_in_the_order_of_last_changes() -> None:
    with by_hand(counts()) as driver:
        send(driver, "a@1 b@2 a@5 c@3 b@1")
        assert read(driver) == ""
        driver.commit()
        assert read(driver) == "a=2@5 c=1@3 b=2@2"
        driver.commit()
        assert read(driver) == ""
        send(driver, "a@2")
        driver.commit()

        assert read(driver) == "a=3@5"


def test_the_store_has_the_newest_rows_at_once() -> None:
    with by_hand(counts()) as driver:
        send(driver, "a@1 a@2")

        assert driver.store("store").get("a") == 2


def test_what_was_not_there_and_is_not_there_says_nothing() -> None:
    with by_hand(rows()) as driver:
        send(driver, "a:1@1 a:null@2 b:null@3 c:1@4")
        driver.commit()
        assert read(driver) == "c=1@4"
        send(driver, "c:null@5 a:null@6 c:2@7 c:null@8")
        driver.commit()

        assert read(driver) == "c=null@8"


def test_a_driver_that_commits_after_each_record_gives_each_change() -> None:
    with TopologyTestDriver(topology(counts())) as driver:
        assert sent(driver, "a@1 a@2 b@3") == "a=1@1 a=2@2 b=1@3"


def test_the_newest_headers_and_time_go_with_the_change() -> None:
    with by_hand(rows()) as driver:
        for time, header in ((5, b"first"), (3, b"second")):
            driver.input_topic("in").send("v", key="k", timestamp=time, headers={"h": header})
        driver.commit()

        assert [(record.timestamp, dict(record.headers)) for record in driver.output_topic("out")] == [(3, {"h": b"second"})]


def test_the_old_value_is_that_of_the_commit_before() -> None:
    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        summed = rows()(builder).group_by(lambda key, value: ("all", int(value)))
        return summed.reduce(lambda a, b: a + b, lambda a, b: a - b)

    with by_hand(shape) as driver:
        send(driver, "a:1@1 a:5@2 b:1@3")
        driver.commit()
        assert read(driver) == "all=5@2 all=6@3"
        send(driver, "a:7@4 a:9@5 b:null@6")
        driver.commit()

        assert read(driver) == "all=10@5 all=9@6"


def test_the_first_change_of_a_row_has_no_old_value() -> None:
    """Without a cache it has the initial value (spec-runtime 2.1)."""

    def shape(caching: bool) -> Shape:
        kept = Materialized.key_value("store", caching=caching)
        return lambda b: (
            grouped(b)
            .aggregate(lambda: 100, lambda k, v, a: a + 1, materialized=kept)
            .group_by(lambda k, v: ("all", v))
            .reduce(lambda a, b: a + b, lambda a, b: a - b)
        )

    for caching, total in ((False, "all=102@2"), (True, "all=202@2")):
        with TopologyTestDriver(topology(shape(caching))) as driver:
            assert sent(driver, "a@1 b@2").split()[-1] == total


def test_caches_below_one_another_give_out_at_one_commit() -> None:
    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        by_count = counts()(builder).group_by(lambda key, count: (count, key), key=int)
        return by_count.count(materialized=Materialized.key_value("groups", caching=True))

    with by_hand(shape) as driver:
        send(driver, "a@1 b@2 a@3 c@4 d@5 d@6")
        driver.commit()

        assert read(driver) == "1=2@4 2=2@6"


def test_what_is_held_back_is_made_again_after_a_crash() -> None:
    with by_hand(counts()) as driver:
        send(driver, "a@1")
        driver.commit()
        send(driver, "a@2 b@3")
        driver.crash()
        send(driver, "b@4")
        driver.commit()
        driver.crash()
        driver.commit()

        assert read(driver) == "a=1@1 a=2@2 b=2@4"


def test_the_end_of_input_gives_out_what_is_held_back() -> None:
    builder = StreamsBuilder()
    kept = Materialized.window("store", caching=True)
    windowed = grouped(builder).windowed_by(TimeWindows(10)).count(materialized=kept)
    windowed.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    with TopologyTestDriver(builder.build(), auto_commit=False) as driver:
        send(driver, "a@1 a@2 b@3")
        driver.end_of_input()
        driver.commit()

        assert read(driver) == "a[0,10)=2@2 b[0,10)=1@3"


def test_time_does_not_overtake_what_is_held_back() -> None:
    builder = StreamsBuilder()
    kept = Materialized.window("store", caching=True)
    windowed = grouped(builder).windowed_by(TimeWindows(10)).count(materialized=kept)
    windowed.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    with TopologyTestDriver(builder.build(), auto_commit=False) as driver:
        send(driver, "a@1 a@2 b@3")
        driver.advance_event_time(10)
        driver.commit()
        driver.advance_event_time(50)
        driver.commit()

        assert read(driver) == "a[0,10)=2@2 b[0,10)=1@3"


def test_a_join_looks_up_the_newest_row() -> None:
    builder = StreamsBuilder()
    table = rows()(builder)
    builder.stream("S").join(table, lambda left, right: f"{left}-{right}").to("out")
    with TopologyTestDriver(builder.build(), auto_commit=False) as driver:
        send(driver, "k:1@1 k:2@2")
        send(driver, "k:a@3", "S")
        driver.commit()

        assert read(driver) == "k=a-2@3"


def test_a_session_that_grows_says_so_once() -> None:
    kept = Materialized.session("store", caching=True)
    with by_hand(lambda b: grouped(b).windowed_by(SessionWindows(10, grace=100)).count(materialized=kept)) as driver:
        send(driver, "k@0 k@5")
        driver.commit()
        assert read(driver, closed=True) == "k[0,5]=2@5"  # [0,0] was never there
        send(driver, "k@3 k@9 k@9")
        driver.commit()

        assert read(driver, closed=True) == "k[0,5]=null@5 k[0,9]=5@9"


def test_results_on_close_are_not_held_back() -> None:
    kept = Materialized.window("store", caching=True)

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        windowed = grouped(builder).windowed_by(TimeWindows(10)).emit_strategy(EmitStrategy.on_window_close())
        return windowed.count(materialized=kept)

    with by_hand(shape) as driver:
        send(driver, "a@1 a@12 a@25")
        driver.commit()

        assert read(driver) == "a[0,10)=1@1 a[10,20)=1@12"


def both(kept: Materialized[Any, Any] | None, windows: Any = None) -> Shape:
    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        together = grouped(builder).cogroup(concatenated).cogroup(grouped(builder, "other"), concatenated)
        if windows is None:
            return together.aggregate(empty, materialized=kept)
        mergers = [lambda key, a, b: a + b] if isinstance(windows, SessionWindows) else []
        return together.windowed_by(windows).aggregate(empty, *mergers, materialized=kept)

    return shape


def test_a_cogroup_has_one_cache_for_all_its_inputs() -> None:
    with by_hand(both(Materialized.key_value("store", caching=True))) as driver:
        send(driver, "k:a@1 n:x@2")
        send(driver, "k:b@3", "other")
        driver.commit()

        assert read(driver) == "n=x@2 k=ab@3"


# ---- the same in the end


def aggregated(caching: bool) -> dict[str, Shape]:
    """One of each kind that can have a cache."""
    key_value = Materialized.key_value("store", caching=caching)
    window, session = Materialized.window("store", caching=caching), Materialized.session("store", caching=caching)

    def windowed(windows: Any, kept: Any) -> Shape:
        def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
            mergers = [lambda key, a, b: a + b] if isinstance(windows, SessionWindows) else []
            by_windows: Any = grouped(builder).windowed_by(windows)
            return by_windows.aggregate(empty, deleting, *mergers, materialized=kept)  # type: ignore[no-any-return]  # of any

        return shape

    def deleting(key: str, value: str, aggregate: str) -> str | None:
        return None if value == "x" else plus(key, value, aggregate)

    return {
        "table": lambda b: b.table("in", materialized=key_value),
        "stream": lambda b: grouped(b).aggregate(empty, deleting, materialized=key_value),
        "grouped table": lambda b: b.table("in").group_by(by_value).count(materialized=key_value),
        "cogroup": both(key_value),
        "sessions of a cogroup": both(session, SessionWindows(10, grace=50)),
        "tumbling": windowed(TimeWindows(10, grace=50), window),
        "sliding": windowed(SlidingWindows(10, grace=50), window),
        "sessions": windowed(SessionWindows(10, grace=50), session),
    }


PLAIN, CACHED = aggregated(False), aggregated(True)
COMMIT = None
INPUTS = st.lists(
    st.none() | st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 40)), max_size=30
)  # fmt: skip


def last_rows(described: Topology, inputs: list[tuple[str, str, int] | None], partitions: int) -> dict[Any, Any]:
    with TopologyTestDriver(described, auto_commit=False, partitions=partitions) as driver:
        for each in inputs:
            if each is COMMIT:
                driver.commit()
            else:
                key, value, time = each
                driver.input_topic("in").send(value, key=key, timestamp=time)
        driver.commit()
        return driver.output_topic("out").read_table()


@pytest.mark.parametrize("kind", PLAIN)
@given(inputs=INPUTS, partitions=st.sampled_from([1, 3]))
@settings(max_examples=15, deadline=None)
def test_the_table_that_comes_out_is_the_same(kind: str, inputs: list[tuple[str, str, int] | None], partitions: int) -> None:
    with_it, without = topology(CACHED[kind]), topology(PLAIN[kind])

    assert last_rows(with_it, inputs, partitions) == last_rows(without, inputs, partitions)


def numbered(shapes: dict[str, Shape], kind: str) -> Topology:
    """How many rows a table has, counted by what is below: wrong as soon as an old value is."""

    def counted(key: Any, value: Any) -> tuple[str, str]:
        return "rows", value

    def shape(builder: StreamsBuilder) -> KTable[Any, Any]:
        return shapes[kind](builder).group_by(counted).count()

    return topology(shape)


@pytest.mark.parametrize("kind", [kind for kind in PLAIN if kind in ("table", "grouped table")])
@given(inputs=INPUTS)
@settings(max_examples=15, deadline=None)
def test_what_is_below_takes_away_what_it_was_given(kind: str, inputs: list[tuple[str, str, int] | None]) -> None:
    assert last_rows(numbered(CACHED, kind), inputs, 1) == last_rows(numbered(PLAIN, kind), inputs, 1)


@pytest.mark.parametrize("kind", CACHED)
@given(inputs=INPUTS)
@settings(max_examples=15, deadline=None)
def test_the_rows_that_are_counted_below_are_those_of_the_table(kind: str, inputs: list[tuple[str, str, int] | None]) -> None:
    table = last_rows(topology(CACHED[kind]), inputs, 1)

    assert last_rows(numbered(CACHED, kind), inputs, 1).get("rows", 0) == len(table)


def made(make: Callable[..., Any], **options: Any) -> Any:
    return make(**options)


def test_versioned_tables_have_no_cache() -> None:
    with pytest.raises(TypeError, match="caching"):
        made(Materialized.versioned, history_retention=10, caching=True)
