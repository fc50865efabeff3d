"""`kill -9` of `raystreams run`, at seeded moments: finished afterwards, the files are those of an undisturbed run.

A moment is a number of committed records, 5-95 % of the run's, and a way to die (see `killing.py`).
"""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest

from tests.examples.flights_job import EXAMPLE, FlightsJob

JANUARY, YEAR = 27_004, 336_776
HOWS = ("before", "after", "torn", "soon")


class Moment:
    """When and how to die, from a seed."""

    def __init__(self, seed: int, records: int) -> None:
        dice = random.Random(seed)
        self.at = round(records * dice.uniform(0.05, 0.95))
        self.how = HOWS[seed % len(HOWS)]
        self.later = dice.randrange(60)

    def __repr__(self) -> str:
        return f"{self.how}-{self.at}"


def killable(folder: Path, data: Path) -> FlightsJob:
    folder.mkdir()
    shutil.copyfile(Path(__file__).with_name("killing.py"), folder / "killing.py")
    changes = {'^connector = "jsonl"': 'connector = "killing.py:KillingJsonl"', '"out/': f'"{folder}/out/'}
    return FlightsJob(folder, data, changes)


def kill(job: FlightsJob, moment: Moment, already: int = 0) -> None:
    done = job.run(KILL_AT=str(moment.at - already), KILL_HOW=moment.how, KILL_LATER=str(moment.later))

    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(4))
def test_killed_and_finished_is_as_if_never_killed(tmp_path: Path, finished: FlightsJob, seed: int) -> None:
    job = killable(tmp_path / "job", EXAMPLE / "data")
    kill(job, Moment(seed, JANUARY))
    job.finish()

    assert job.files() == finished.files()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 24))
def test_killed_at_twenty_moments(tmp_path: Path, finished: FlightsJob, seed: int) -> None:
    test_killed_and_finished_is_as_if_never_killed(tmp_path, finished, seed)


@pytest.mark.slow
def test_the_year_killed_twenty_times_on_its_way(tmp_path: Path, year: Path) -> None:
    (tmp_path / "undisturbed").mkdir()
    undisturbed = FlightsJob(tmp_path / "undisturbed", year / "data")
    undisturbed.finish()
    job = killable(tmp_path / "job", year / "data")
    given = 0
    for moment in sorted((Moment(seed, YEAR) for seed in range(20)), key=lambda moment: moment.at):
        if moment.at <= given:
            continue
        kill(job, moment, given)
        given = sum(content.count(b"\n") for name, content in job.files().items() if name.startswith("flights"))
    job.finish()

    assert job.files() == undisturbed.files()
