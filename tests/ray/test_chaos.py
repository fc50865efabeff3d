"""Fifty kills, each in the midst of the work: of tasks, managers, nodes whose tasks live on. Nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from raystreams.cluster import submission
from raystreams.cluster.job import Job
from raystreams.cluster.job_record import OVER, TaskNeeds
from raystreams.cluster.statuses import JobStatus

from tests.examples.flights_job import COMMAND, FlightsJob
from tests.ray import fk_job
from tests.ray.clusters import Machines, all_in_sync, kill, machines, pid_of_manager, pid_of_task, wait_for

pytestmark = pytest.mark.slow

KILLS = {"flights": 30, "orders": 20}
NEEDS = TaskNeeds(num_cpus=0.5)
Progress = Callable[[JobStatus], float]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(3) as made:
        yield made


class Chaos:
    """Kills parts of a running job, at moments that a seed chooses."""

    def __init__(self, cluster: Machines, job: str, random: Random, progress: Progress, most: int) -> None:
        self._cluster, self._job, self._random, self._progress = cluster, job, random, progress
        self._moments = sorted(random.uniform(0.05, 0.9) for _ in range(most))
        self.kills: list[str] = []

    def __call__(self, status: JobStatus) -> None:
        if not self._moments or status.state != "running" or self._progress(status) < self._moments[0]:
            return
        self._moments.pop(0)
        if self._progress(status) > 0.95:
            return
        how = self._random.choice((self.task, self.task, self.manager, self.node, self.zombie, self.stopped_node))
        if how in (self.node, self.zombie) and not all_in_sync(status):
            how = self.task  # where there is no standby yet, the work would be over before there is
        if how(status):
            self.kills.append(how.__name__)

    def task(self, status: JobStatus) -> bool:
        """A task's process."""
        kill(pid_of_task(self._job, self._random.randrange(status.partitions)))
        return True

    def manager(self, status: JobStatus) -> bool:
        """The manager's process."""
        kill(pid_of_manager(self._job))
        return True

    def node(self, status: JobStatus) -> bool:
        """A node's Ray; another node comes in its place."""
        self._cluster.lose(self._random.choice(status.tasks).node)
        self._cluster.add()
        return True

    def zombie(self, status: JobStatus) -> bool:
        """A task is stopped, its node is lost, a standby takes its place; then the old one goes on where it was."""
        task = self._random.choice(status.tasks)
        pid = pid_of_task(self._job, task.partition)
        os.kill(pid, signal.SIGSTOP)
        self._cluster.lose(task.node)
        self._cluster.add()

        def has_followed(now: JobStatus) -> bool:
            new = now.tasks[task.partition]
            return now.state in OVER or (new.epoch > task.epoch and new.commits > 0)

        try:
            wait_for(self._job, has_followed)
        finally:
            with contextlib.suppress(ProcessLookupError):  # who took its place may have ended it, where they share a disk
                os.kill(pid, signal.SIGCONT)
        return True

    def stopped_node(self, status: JobStatus) -> bool:
        """A node's Ray is stopped for some seconds; its tasks go on."""
        pid = self._cluster.raylet(self._random.choice(status.tasks).node)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self._random.uniform(0.5, 3.0))
        os.kill(pid, signal.SIGCONT)
        return True


def run_with_kills(cluster: Machines, job: Job, random: Random, progress: Progress, most: int) -> list[str]:
    """Run a job to its end under chaos; return what was killed."""
    submission.submit(job, NEEDS)
    chaos = Chaos(cluster, job.name, random, progress, most)
    status = submission.follow(job.name, chaos, every=0.05)

    assert (status.state, status.error) == ("finished", None)
    return chaos.kills


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def written(out: Path, whole: int) -> Progress:
    """The part of the outputs that is there."""
    return lambda status: size(out) / whole


def test_flights_are_those_of_the_embedded_run(cluster: Machines, tmp_path: Path) -> None:
    (tmp_path / "embedded").mkdir()
    embedded = FlightsJob(tmp_path / "embedded")
    embedded.finish()
    expected, whole = embedded.files(), size(embedded.out)
    kills: list[str] = []
    for run in count():
        if len(kills) >= KILLS["flights"]:
            break
        folder = tmp_path / f"run-{run}"
        folder.mkdir()
        copy = FlightsJob(folder)
        job = Job.load(copy.file)
        job.cluster = fk_job.with_standby()
        done = run_with_kills(cluster, job, Random(run), written(copy.out, whole), 6)
        print(done)

        assert copy.files() == expected
        kills += done
        shutil.rmtree(folder)


def test_a_foreign_key_join_is_that_of_sql(cluster: Machines, tmp_path: Path) -> None:
    changes = 80_000
    fk_job.write_data(tmp_path, changes, 7)
    expected = fk_job.sql_tables(tmp_path)
    kills: list[str] = []

    def progress(status: JobStatus) -> float:
        return sum(status.records.values()) / changes

    for run in count():
        if len(kills) >= KILLS["orders"]:
            break
        folder = tmp_path / f"run-{run}"
        folder.mkdir()
        job = fk_job.job_of(folder, tmp_path, cluster=fk_job.with_standby())
        done = run_with_kills(cluster, job, Random(100 + run), progress, 6)
        print(done)

        assert fk_job.final_tables(folder) == expected
        kills += done
        shutil.rmtree(folder)


def test_the_job_outlives_the_process_that_submitted_it(cluster: Machines, tmp_path: Path) -> None:
    (tmp_path / "embedded").mkdir()
    (tmp_path / "submitted").mkdir()
    embedded = FlightsJob(tmp_path / "embedded")
    submitted = FlightsJob(tmp_path / "submitted", changes={'name = "flights"': 'name = "outlived"'})
    embedded.finish()
    command = [str(COMMAND), "submit", str(submitted.file), "--address", cluster.address, "--wait"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        while not submitted.out.exists() or size(submitted.out) < size(embedded.out) * 0.1:
            assert driver.poll() is None
            time.sleep(0.05)
        driver.kill()
    status = submission.follow("outlived")

    assert (status.state, status.error) == ("finished", None)
    assert submitted.files() == embedded.files()
