"""What users meet when they submit: results, reads, logs, and for everything that is wrong an error that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from raystreams.cluster import submission
from raystreams.cluster.logs import lines_of

from raystreams import (
    ClusterSettings,
    Collect,
    ConfigError,
    Job,
    JobFailedError,
    NotAvailableError,
    Rows,
    StreamsBuilder,
    TopologyError,
    connect,
)
from tests.ray.clusters import wait_for
from tests.ray.failing_job import COUNTS, TOTALS, expected, job_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def ray_here() -> Iterator[None]:
    with submission.joined(submission.LOCAL, num_cpus=2):
        yield


def test_what_was_collected_comes_back_and_a_finished_job_says_so(tmp_path: Path) -> None:
    first = job_of(tmp_path, "collected").submit().wait()
    again = job_of(tmp_path, "collected").submit().wait()

    assert {record.key: record.value for record in first[TOTALS]} == expected()
    assert len(first[TOTALS]) == 200
    assert (first.summary.sources, first.summary.sinks) == ({"numbers": 200}, {"totals": 200})
    assert again.summary.already_finished
    assert list(again[TOTALS]) == list(first[TOTALS])


def test_a_function_that_raises_stops_the_job_which_goes_on_after_a_fix(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    submitted = job_of(tmp_path, "broken").submit()
    with pytest.raises(JobFailedError, match=r"'check' failed on key 'a' at time 120 .*position.*it is broken") as failed:
        submitted.wait()
    status = submitted.status()
    (tmp_path / "broken").unlink()
    submitted.resume()
    result = submitted.wait()

    assert "failing_job.py:" in str(failed.value)
    assert status.state == "failed"
    assert {record.key: record.value for record in result[TOTALS]} == expected()


def test_stores_are_read_while_the_job_is_paused(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    job = job_of(tmp_path, "read", bad=-1, count=60_000)
    with job.submit() as submitted:
        wait_for("read", lambda status: status.state == "running" and status.records.get("numbers", 0) > 1_000)
        submitted.pause()
        wait_for("read", lambda status: all(task.state == "paused" for task in status.tasks))
        store = submitted.store(COUNTS)
        keys = [key for key, _ in store.all()]
        values = store.get_many("abz")

        assert keys == list("abcde")
        assert [key for key, _ in store.reverse_all()] == list("edcba")
        assert values == {"a": store.get("a"), "b": store.get("b")}
        assert store.get("a") > 100
        submitted.resume()
    assert submission.status("read").state in ("stopped", "finished")


def test_what_tasks_print_and_the_manager_decides_is_in_the_logs(tmp_path: Path) -> None:
    job = job_of(tmp_path, "logged", bad=-1, count=100_000)
    with job.submit():
        wait_for("logged", lambda status: status.state == "running" and status.records.get("numbers", 0) > 200)
        lines = list(lines_of("logged", None, follow=False))
        of_one = list(lines_of("logged", 0, follow=False))

    assert any("manager  " in line and "starts the tasks" in line for line in lines)
    assert any("the task of epoch" in line for line in of_one)
    assert any(line.endswith("at 100") for line in lines)
    assert all("  partition 0  " in line for line in of_one)


def test_a_name_is_taken_while_its_job_runs(tmp_path: Path) -> None:
    job = job_of(tmp_path, "taken", bad=-1, count=200_000)
    with job.submit(), pytest.raises(ConfigError, match=r"a job 'taken' is (starting|running).*raystreams stop taken"):
        job_of(tmp_path, "taken").submit()


def test_what_is_missing_of_resources_is_said(tmp_path: Path) -> None:
    job = job_of(tmp_path, "large", cluster=ClusterSettings(num_cpus=1.5))
    with pytest.raises(JobFailedError, match=r"2 tasks need 1.5 CPU each, and only 1 of them fit.*Free are node"):
        job.submit().wait()


def test_a_state_directory_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(JobFailedError, match=r"node \w+: .*state: File exists"):
        job_of(tmp_path, "nowhere").submit().wait()


def test_state_of_another_job_is_refused(tmp_path: Path) -> None:
    job_of(tmp_path, "mine").submit().wait()
    with pytest.raises(JobFailedError, match=r"mine.*yours"):
        job_of(tmp_path, "yours").submit().wait()


def unnamed(state_dir: Path | None) -> Job:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count().to_stream().to("out")
    rows = Rows([{"id": 1, "at": 1}], key="id", timestamp="at")
    return Job("unnamed", builder.build(), sources={"in": rows}, sinks={"out": Collect()}, state_dir=state_dir)


def test_jobs_that_would_lose_their_state_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="no name of their own: KSTREAM-AGGREGATE"):
        unnamed(tmp_path).submit()
    with pytest.raises(ConfigError, match="no state_dir"):
        unnamed(None).submit()


def test_a_job_that_is_not_there_is_said() -> None:
    with pytest.raises(ConfigError, match="no job 'nothing' in this cluster"):
        submission.status("nothing")
    with pytest.raises(NotAvailableError, match="no job 'nothing' is running") as refused:
        connect("nothing")
    assert not refused.value.retry
