"""`raystreams submit` as the README has it: a Ray on this machine for one job, whose outputs are those of the embedded run."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.examples.flights_job import COMMAND, FlightsJob

pytestmark = pytest.mark.slow


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, bytes]:
    (tmp_path / "embedded").mkdir()
    embedded = FlightsJob(tmp_path / "embedded")
    embedded.finish()
    return embedded.files()


def submitted_in(tmp_path: Path) -> FlightsJob:
    (tmp_path / "submitted").mkdir()
    return FlightsJob(tmp_path / "submitted")


def test_its_output_is_that_of_the_embedded_run(tmp_path: Path, expected: dict[str, bytes]) -> None:
    job = submitted_in(tmp_path)
    done = job.command("submit", "--address", "local", "--wait")
    again = job.run()

    assert done.returncode == 0, done.stderr
    assert "27,004 flights" in done.stdout
    assert job.files() == expected
    assert "has finished already" in again.stdout


def test_ctrl_c_commits_and_an_embedded_run_goes_on(tmp_path: Path, expected: dict[str, bytes]) -> None:
    job = submitted_in(tmp_path)
    command = [str(COMMAND), "submit", str(job.file), "--address", "local"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while sum(map(len, job.files().values())) < 100_000:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    part = sum(map(len, job.files().values()))
    job.finish()

    assert process.returncode == 130
    assert "stopped; what was done is committed" in told
    assert part < sum(map(len, expected.values()))
    assert job.files() == expected
