"""The embedded runner: from sources to sinks, exactly once, whatever happens in between."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from raystreams.cluster import local
from raystreams.cluster.exchange import LostCommitsError
from raystreams.stores.errors import StateLockedError

from raystreams import (
    BadRow,
    BadRowError,
    Collect,
    ConfigError,
    DeadLetter,
    EmitStrategy,
    Job,
    ProcessingError,
    Record,
    RetryLater,
    SourceRecord,
    StoreMismatchError,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from tests.cluster.jobs import Kept, Lists, numbers


def lists_of(change: Callable[[int], int] = lambda number: number) -> Topology:
    """The list of values of each key, after a repartition by the value's last digit."""
    builder = StreamsBuilder()
    stream = builder.stream("numbers").map_values(change, name="change")
    grouped = stream.group_by(lambda key, value: value % 10, name="digits")
    grouped.aggregate(list, lambda key, value, so_far: [*so_far, value]).to_stream().to("lists")
    return builder.build()


def job(topology: Topology, source: Any, sink: Any, **settings: Any) -> Job:
    return Job("test", topology, sources={"numbers": source}, sinks={"lists": sink}, **settings)


def outputs(sink: Kept) -> list[tuple[int, Any, Any]]:
    return [(partition, r.key, r.value) for partition, records in sorted(sink.records.items()) for r in records]


def expected(partitions: int, *splits: list[Record[str, int]]) -> list[tuple[int, Any, Any]]:
    sink = Kept()
    job(lists_of(), Lists(*splits), sink, partitions=partitions).run()
    return outputs(sink)


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_every_record_is_processed_once_in_each_number_of_partitions(partitions: int) -> None:
    rows = expected(partitions, numbers(100), numbers(60, start=20))

    finals = {key: value for _, key, value in rows}
    assert sorted(number for values in finals.values() for number in values) == sorted([*range(100), *range(60)])
    assert len(rows) == 160


@pytest.mark.parametrize("partitions", [1, 3])
def test_what_comes_out_does_not_depend_on_when_it_commits(monkeypatch: pytest.MonkeyPatch, partitions: int) -> None:
    splits = (numbers(100), numbers(60, start=20))
    wanted = expected(partitions, *splits)
    monkeypatch.setattr(local, "COMMIT_RECORDS", 3)
    sink = Kept()
    job(lists_of(), Lists(*splits, batch=2), sink, partitions=partitions).run()

    assert outputs(sink) == wanted


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_job_that_failed_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partitions: int
) -> None:
    monkeypatch.setattr(local, "COMMIT_RECORDS", 5)
    splits = (numbers(100), numbers(60, start=20))
    wanted = expected(partitions, *splits)
    sink, calls, failing = Kept(), [0], {11, 40, 41, 97, 130}

    def fails(number: int) -> int:
        calls[0] += 1
        if calls[0] in failing:
            failing.discard(calls[0])
            raise RuntimeError("the machine is on fire")
        return number

    while failing:
        with pytest.raises(ProcessingError, match=r"'change' failed on key .* \(topic 'numbers'"):
            job(lists_of(fails), Lists(*splits), sink, partitions=partitions, state_dir=tmp_path).run()
    summary = job(lists_of(fails), Lists(*splits), sink, partitions=partitions, state_dir=tmp_path).run().summary

    assert outputs(sink) == wanted
    assert not summary.already_finished
    assert any(position for _, position in sink.opened)


@pytest.mark.parametrize("hook", ["before_write", "after_write"])
def test_a_sink_that_dies_with_its_job_gets_the_same_batch_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hook: str
) -> None:
    monkeypatch.setattr(local, "COMMIT_RECORDS", 5)
    sink, deaths = Kept(), [2, 3, 5]

    def die(batch: Any) -> None:
        if batch.sequence in deaths:
            deaths.remove(batch.sequence)
            raise OSError("no space left on device")

    setattr(sink, hook, die)
    while deaths:
        with pytest.raises(OSError, match="no space"):
            job(lists_of(), Lists(numbers(50)), sink, partitions=2, state_dir=tmp_path).run()
    job(lists_of(), Lists(numbers(50)), sink, partitions=2, state_dir=tmp_path).run()

    assert outputs(sink) == expected(2, numbers(50))


def test_a_finished_job_says_so_and_does_nothing(tmp_path: Path) -> None:
    sink = Kept()
    first = job(lists_of(), Lists(numbers(30)), sink, partitions=2, state_dir=tmp_path).run().summary
    before = outputs(sink)
    again = job(lists_of(), Lists(numbers(30)), sink, partitions=2, state_dir=tmp_path).run().summary

    assert outputs(sink) == before
    assert first.sources == {"numbers": 30} and first.sinks == {"lists": 30} and not first.already_finished
    assert again.already_finished and again.sources == {"numbers": 0}


def test_a_sink_is_asked_again_later() -> None:
    sink, refusals = Kept(), [3]

    def refuse(batch: Any) -> None:
        if refusals[0]:
            refusals[0] -= 1
            raise RetryLater(0.001)

    sink.before_write = refuse
    job(lists_of(), Lists(numbers(20)), sink).run()

    assert len(sink.all()) == 20 and refusals == [0]


def test_ctrl_c_commits_whole_records_and_the_next_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local, "COMMIT_RECORDS", 4)
    wanted, sink, seen = expected(2, numbers(60)), Kept(), [0]

    def interrupted(number: int) -> int:
        seen[0] += 1
        if seen[0] == 33:
            signal.raise_signal(signal.SIGINT)
        return number

    with pytest.raises(KeyboardInterrupt):
        job(lists_of(interrupted), Lists(numbers(60)), sink, partitions=2, state_dir=tmp_path).run()
    assert 0 < len(sink.all()) < 60
    job(lists_of(interrupted), Lists(numbers(60)), sink, partitions=2, state_dir=tmp_path).run()

    assert outputs(sink) == wanted
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert seen[0] <= 60 + 4, "what was interrupted was committed"


def test_a_source_that_fails_loses_nothing(tmp_path: Path) -> None:
    sink = Kept()
    with pytest.raises(OSError, match="gone"):
        job(lists_of(), Lists(numbers(25), fails=OSError("gone")), sink, state_dir=tmp_path).run()
    job(lists_of(), Lists(numbers(40)), sink, state_dir=tmp_path).run()

    assert outputs(sink) == expected(1, numbers(40))


def test_windows_close_at_the_end_of_bounded_input() -> None:
    builder = StreamsBuilder()
    windows = builder.stream("numbers").group_by_key().windowed_by(TimeWindows(10, grace=1000))
    windows.emit_strategy(EmitStrategy.on_window_close()).count().to_stream().to("lists")
    result = job(builder.build(), Lists(numbers(20, keys="a")), Collect(), partitions=3).run()

    assert [(r.key.start, r.value) for r in result["lists"]] == [(0, 10), (10, 10)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_loop_ends_when_nothing_moves_in_it(partitions: int) -> None:
    builder = StreamsBuilder()
    both = builder.stream("numbers").merge(builder.stream("halves"))
    both.filter(lambda key, n: n > 1).map(lambda key, n: ("abc"[n % 3], n // 2)).to("halves")
    both.group_by(lambda key, n: n, name="by-number").count(name="counts").to_stream().to("lists")
    topology = builder.build()
    sources = {"numbers": Lists([Record("a", 100, 1), Record("b", 64, 2)])}
    result = Job("test", topology, sources=sources, sinks={"lists": Collect(), "halves": Collect()}, partitions=partitions).run()

    counts = {record.key: record.value for record in result["lists"]}
    assert counts == {100: 1, 50: 1, 25: 1, 12: 1, 6: 1, 3: 1, 64: 1, 32: 1, 16: 1, 8: 1, 4: 1, 2: 1, 1: 2}


def test_bad_rows_fail_are_counted_or_kept_as_the_job_says() -> None:
    def bad() -> Any:
        yield [BadRow(101, "x.csv", 7, "1;2", "3 columns are needed")]

    with pytest.raises(BadRowError, match=r"x\.csv:7"):
        job(lists_of(), Lists(numbers(5), then=bad), Kept()).run()
    skipped = job(lists_of(), Lists(numbers(5), then=bad), Kept(), on_error="skip").run().summary
    letters = Collect()
    kept = Job(
        "test", lists_of(), sources={"numbers": Lists(numbers(5), then=bad)}, sinks={"lists": Kept(), "bad": letters},
        on_error=DeadLetter("bad"),
    ).run()  # fmt: skip

    assert list(skipped.dropped.values()) == [1] and skipped.sinks == {"lists": 5}
    assert [(r.value, r.headers["line"]) for r in kept["bad"]] == [("1;2", b"7")]


def test_state_of_another_job_number_of_partitions_or_topology_is_refused(tmp_path: Path) -> None:
    job(lists_of(), Lists(numbers(5)), Kept(), partitions=2, state_dir=tmp_path).run()
    other = StreamsBuilder()
    other.stream("numbers").to("lists")

    with pytest.raises(StoreMismatchError, match="partitions"):
        job(lists_of(), Lists(numbers(5)), Kept(), partitions=3, state_dir=tmp_path).run()
    with pytest.raises(StoreMismatchError, match="job"):
        Job(
            "other", lists_of(), sources={"numbers": Lists([])}, sinks={"lists": Kept()}, partitions=2, state_dir=tmp_path
        ).run()
    with pytest.raises(StoreMismatchError, match="stores"):
        job(other.build(), Lists(numbers(5)), Kept(), partitions=2, state_dir=tmp_path).run()


def test_a_state_directory_has_one_job_at_a_time(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def again(number: int) -> int:
        try:
            job(lists_of(), Lists(numbers(5)), Kept(), state_dir=tmp_path).run()
        except StateLockedError as error:
            errors.append(error)
        return number

    job(lists_of(again), Lists(numbers(1)), Kept(), state_dir=tmp_path).run()

    assert len(errors) == 1


def test_a_task_that_has_lost_commits_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local, "COMMIT_RECORDS", 5)
    state, calls = tmp_path / "state", [0]

    def fails(number: int) -> int:
        calls[0] += 1
        if calls[0] in (20, 50):
            raise RuntimeError("the machine is on fire")
        return number

    with pytest.raises(ProcessingError):
        job(lists_of(fails), Lists(numbers(90)), Kept(), partitions=2, state_dir=state).run()
    shutil.copytree(state / "00001", tmp_path / "old")
    with pytest.raises(ProcessingError):
        job(lists_of(fails), Lists(numbers(90)), Kept(), partitions=2, state_dir=state).run()
    shutil.rmtree(state / "00001")
    shutil.copytree(tmp_path / "old", state / "00001")

    with pytest.raises(LostCommitsError, match="task 1 has lost commits"):
        job(lists_of(fails), Lists(numbers(90)), Kept(), partitions=2, state_dir=state).run()


def test_records_without_a_position_need_at_least_once() -> None:
    class Unnumbered(Lists):
        def read(self, split: str, position: Any) -> Any:
            for batch in super().read(split, position):
                assert isinstance(batch, list)
                yield [SourceRecord(r.key, r.value, r.timestamp, None) for r in batch]

    with pytest.raises(ConfigError, match="at_least_once"):
        job(lists_of(), Unnumbered(numbers(5)), Kept()).run()
    sink = Kept()
    job(lists_of(), Unnumbered(numbers(5)), sink, guarantee="at_least_once").run()

    assert len(sink.all()) == 5


def test_a_sink_node_names_itself_when_a_record_is_not_of_its_types() -> None:
    builder = StreamsBuilder()
    builder.stream("numbers").map_values(lambda n: object() if n == 3 else n).to("lists", name="out", on_error="skip")
    skipping = job(builder.build(), Lists(numbers(5)), Collect()).run()
    failing = StreamsBuilder()
    failing.stream("numbers").map_values(lambda n: object()).to("lists", name="out")

    assert [r.value for r in skipping["lists"]] == [0, 1, 2, 4]
    assert skipping.summary.dropped == {("out", "error"): 1}
    with pytest.raises(Exception, match="object"):
        job(failing.build(), Lists(numbers(5)), Collect()).run()
