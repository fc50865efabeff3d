"""What the tests of the examples share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.flights_job import EXAMPLE, FlightsJob


@pytest.fixture(scope="session")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that examples/flights/full_year.py writes; pip fetches the data."""
    folder = tmp_path_factory.mktemp("year")
    subprocess.run([sys.executable, str(EXAMPLE / "full_year.py"), str(folder)], check=True)
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FlightsJob:
    """The job as it is in the example, run to its end; not to be changed."""
    job = FlightsJob(tmp_path_factory.mktemp("january"))
    job.finish()
    return job
