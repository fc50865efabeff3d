"""Jobs in Python: what they check, what they give back, and jobs in the background whose state is asked while they run."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster.job import RunningJob

from raystreams import (
    Collect,
    ConfigError,
    EmitStrategy,
    Job,
    Materialized,
    NotAvailableError,
    ProcessingError,
    Record,
    StreamsBuilder,
    TimeWindows,
    Topic,
    Topology,
)
from tests.cluster.jobs import Kept, Lists, Live, numbers

COUNTS = Materialized.key_value("counts", key=str, value=int)
NUMBERS = Topic("numbers", key=str, value=int)
OUT = Topic("out", key=str, value=int)


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream(NUMBERS).group_by_key().count(materialized=COUNTS).to_stream().to(OUT)
    return builder.build()


def live_job(topology: Topology, partitions: int = 2) -> tuple[Job, Live, Kept]:
    live, sink = Live(), Kept()
    return Job("live", topology, sources={NUMBERS: live}, sinks={"out": sink}, partitions=partitions), live, sink


def until(running: RunningJob, topic: Any, wanted: int, then: Any) -> list[Record[Any, Any]]:
    """Do something, and wait for so many records."""
    tail = running.tail(topic)
    then()
    return [next(tail) for _ in range(wanted)]


def test_a_job_gives_back_what_was_collected() -> None:
    job = Job("j", counting(), sources={NUMBERS: Lists(numbers(10))}, sinks={OUT: [Collect(), Kept()]}, partitions=2)
    result = job.run()

    assert {record.key: record.value for record in result[OUT]} == dict.fromkeys("abcde", 2)
    assert len(result["out"]) == 10 and result.summary.sources == {"numbers": 10}
    with pytest.raises(KeyError, match="bind it to Collect"):
        result["counts"]


def test_all_topics_that_are_bound_to_nothing_are_listed() -> None:
    builder = StreamsBuilder()
    builder.stream("one").merge(builder.stream("two")).to("three")

    with pytest.raises(ConfigError, match=r"no source for 'one', 'two', and no sink for 'three'"):
        Job("j", builder.build(), sources={})


def test_late_records_have_a_topic_to_bind() -> None:
    builder = StreamsBuilder()
    windows = builder.stream(NUMBERS).group_by_key().windowed_by(TimeWindows(10), late_records_to="late")
    windows.count().to_stream().to("out")
    records = [Record("a", 1, 5), Record("a", 2, 30), Record("a", 3, 6)]

    with pytest.raises(ConfigError, match="no sink for 'late'"):
        Job("j", builder.build(), sources={NUMBERS: Lists(records)}, sinks={"out": Collect()})
    sinks = {"out": Collect(), "late": Collect()}
    result = Job("j", builder.build(), sources={NUMBERS: Lists(records)}, sinks=sinks).run()
    assert [record.value for record in result["late"]] == [3]


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"partitions": 0}, ConfigError), ({"guarantee": "hope"}, ConfigError), ({"on_error": "panic"}, ValueError)],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Job("j", counting(), sources={NUMBERS: Lists([])}, sinks={OUT: Collect()}, **settings)


def test_a_running_job_tells_its_committed_state() -> None:
    job, live, sink = live_job(counting())
    with job.start() as running:
        got = until(running, OUT, 3, lambda: live.send(Record("a", 1, 1), Record("b", 1, 2), Record("a", 1, 3)))
        store, status = running.store(COUNTS), running.status()

        assert store.get("a") == 2 and store.get("nobody") is None
        assert list(store.all()) == [("a", 2), ("b", 1)]
        assert status is not None and status.sources[0].records == 3 and status.sources[0].event_time == 3
        assert sorted((record.key, record.value) for record in got) == [("a", 1), ("a", 2), ("b", 1)]
        with pytest.raises(ValueError, match="'counts'"):
            running.store("cuonts")

    assert len(sink.all()) == 3
    with pytest.raises(NotAvailableError, match="not running"):
        running.store(COUNTS).get("a")


def test_a_running_job_ends_with_its_sources() -> None:
    job, live, sink = live_job(counting())
    running = job.start()
    live.send(Record("a", 1, 1))
    live.end()
    result = running.wait(timeout=30)

    assert result.summary.sources == {"numbers": 1} and len(sink.all()) == 1


def test_what_a_job_raised_reaches_those_who_wait_for_it() -> None:
    builder = StreamsBuilder()
    builder.stream(NUMBERS).map_values(lambda n: 1 // n, value=int).to(OUT)
    job, live, _ = live_job(builder.build())
    running = job.start()
    tail = running.tail(OUT)
    live.send(Record("a", 0, 1))

    with pytest.raises(ProcessingError, match="ZeroDivisionError"):
        list(tail)
    with pytest.raises(ProcessingError):
        running.wait(timeout=30)


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_input_that_has_caught_up_does_not_hold_others(partitions: int) -> None:
    builder = StreamsBuilder()
    table = builder.table("table")
    builder.stream(NUMBERS).select_key(lambda key, n: key).left_join(table, lambda n, row: n, value=int).to(OUT)
    live, quiet, sink = Live(), Live(), Kept()
    sources = {NUMBERS: live, "table": quiet}
    job = Job("live", builder.build(), sources=sources, sinks={OUT: sink}, partitions=partitions)
    with job.start() as running:
        first = until(running, OUT, 2, lambda: live.send(Record("a", 1, 5), Record("b", 2, 6)))
        second = until(running, OUT, 1, lambda: live.send(Record("c", 3, 7)))

    assert sorted(record.value for record in first) == [1, 2]
    assert [record.value for record in second] == [3]


@pytest.mark.parametrize("partitions", [1, 3])
def test_watermarks_close_windows_of_a_live_source(partitions: int) -> None:
    builder = StreamsBuilder()
    windows = builder.stream(NUMBERS).group_by(lambda key, n: "x").windowed_by(TimeWindows(10))
    windows.emit_strategy(EmitStrategy.on_window_close()).count().to_stream().to("out")
    job, live, _ = live_job(builder.build(), partitions)
    with job.start() as running:
        def send() -> None:
            live.send(Record("a", 1, 1), Record("b", 1, 2))
            live.watermark(25)

        (closed,) = until(running, "out", 1, send)

    assert (closed.key.start, closed.value) == (0, 2)
