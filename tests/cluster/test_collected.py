"""What a job in a cluster has collected: kept in the state of its tasks, read in pages, decoded into `Collect` sinks."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from raystreams.cluster import collected
from raystreams.cluster.collected import Page, collected_topics, kept_in_state, page_of
from raystreams.cluster.state_dir import copy_path, open_partition
from raystreams.cluster.task_shell import RunSettings, TaskShell, splits_of_job
from raystreams.operators.graph import Topology

from raystreams import Collect, Job, Record, StreamsBuilder, Topic
from tests.cluster.jobs import Kept, Lists, numbers


def two_writers() -> Topology:
    builder = StreamsBuilder()
    given = builder.stream(Topic("in", key=str, value=int))
    given.to(Topic("out", key=str, value=int))
    given.map_values(str, value=str).to(Topic("out", key=str, value=str))
    return builder.build()


def job_of(folder: Path, collect: Collect, *others: Kept) -> Job:
    source = Lists(numbers(6), batch=2)
    return Job("kept", two_writers(), sources={"in": source}, sinks={"out": [collect, *others]}, state_dir=folder)


def run_as_in_a_cluster(job: Job, folder: Path, commit_every: int) -> None:
    """One task, as an actor has it."""
    came = threading.Event()
    settings = RunSettings(
        name=job.name, partitions=1, state_dir=folder, on_error="fail", keep_outputs=collected_topics(job.bindings)
    )
    with open_partition(folder, job.name, 0, 1) as database:
        splits = splits_of_job(job.topology, job.bindings, 1)
        bindings = kept_in_state(job.bindings)
        shell = TaskShell(
            job.topology, bindings, settings, 0, database, splits, wake=came.set, stopping=lambda seconds: False
        )
        shell.open()
        shell.read()
        while not shell.is_finished:
            came.wait(5)
            shell.take()
            shell.task.process(commit_every)
            shell.write(shell.task.commit().batches)
        shell.task.commit()
        shell.close()


def pages(job: Job, folder: Path, seen: list[tuple[int, bool]]) -> collected.Read:
    def read(partition: int, topic: str, after: int) -> Page:
        page = page_of(str(copy_path(folder, partition, 0)), job.name, partition, job.partitions, topic, after)
        seen.append((len(page.batches), page.is_last))
        return page

    return read


@pytest.mark.parametrize("page_bytes", [1, 1 << 20])
def test_what_was_collected_is_read_page_by_page_as_its_writers_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_bytes: int
) -> None:
    monkeypatch.setattr(collected, "PAGE_BYTES", page_bytes)
    out, other, seen = Collect(), Kept(), list[tuple[int, bool]]()
    job = job_of(tmp_path, out, other)
    run_as_in_a_cluster(job, tmp_path, 2)
    assert list(out) == []
    collected.collect(job, pages(job, tmp_path, seen))

    assert list(out) == [
        record for n, given in enumerate(numbers(6)) for record in (given, Record(given.key, str(n), given.timestamp))
    ]
    assert other.all() == list(out)
    assert [is_last for _, is_last in seen] == [*[False] * (len(seen) - 1), True]
    assert (len(seen) > 1) == (page_bytes == 1)


def test_collected_batches_are_not_written_again_after_a_restart(tmp_path: Path) -> None:
    out, other = Collect(), Kept()
    job = job_of(tmp_path, out, other)
    run_as_in_a_cluster(job, tmp_path, 2)
    before = dict(other.ids)
    with open_partition(tmp_path, job.name, 0, 1) as database:
        settings = RunSettings(
            name=job.name, partitions=1, state_dir=tmp_path, on_error="fail", keep_outputs=collected_topics(job.bindings)
        )
        splits = splits_of_job(job.topology, job.bindings, 1)
        shell = TaskShell(
            job.topology, kept_in_state(job.bindings), settings, 0, database, splits,
            wake=lambda: None, stopping=lambda seconds: False,
        )  # fmt: skip

        assert shell.task.outputs.topics() == ["out"]
        assert shell.task.outputs.pending("out") == []
        shell.close()
    assert other.ids == before
