"""The flights job gives what SQL gives, in every number of partitions, however its weather is cut into files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.examples.flights_job import EXAMPLE, FlightsJob
from tests.examples.flights_sql import Expected, delays, flights


@pytest.fixture(scope="module")
def january() -> Expected:
    return Expected(EXAMPLE / "data")


def test_flights_and_delays_are_those_of_sql(finished: FlightsJob, january: Expected) -> None:
    assert flights(finished.out) == january.flights
    assert delays(finished.out) == january.delays
    assert january.flights.total() == 27_004


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_number_of_partitions_makes_no_difference(tmp_path: Path, january: Expected, partitions: int) -> None:
    job = FlightsJob(tmp_path, changes={"^partitions = 4": f"partitions = {partitions}"})
    job.finish()

    assert flights(job.out) == january.flights
    assert delays(job.out) == january.delays


def test_two_days_of_weather_are_enough_since_inputs_are_read_in_order_of_time(
    tmp_path: Path, january: Expected
) -> None:
    job = FlightsJob(tmp_path, changes={'"366d"': '"2d"'})
    job.finish()

    assert flights(job.out) == january.flights


def test_weather_in_one_file_with_disorder_gives_the_same(tmp_path: Path, january: Expected) -> None:
    whole = tmp_path / "weather.csv.gz"
    with gzip.open(whole, "wb") as file:
        for i, path in enumerate(sorted((EXAMPLE / "data" / "weather").iterdir())):
            header, *rows = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            file.writelines(rows if i else [header, *rows])
    job = FlightsJob(tmp_path, changes={'^path = ".*/weather"$': f'path = "{whole}"\ndisorder = "32d"'})
    job.finish()

    assert flights(job.out) == january.flights
    assert delays(job.out) == january.delays


def test_a_finished_job_says_so_and_does_nothing(finished: FlightsJob) -> None:
    before = finished.files()

    assert "finished" in finished.finish()
    assert finished.files() == before


def test_the_stopped_job_says_what_the_weather_was(finished: FlightsJob) -> None:
    asked = finished.command("query", "weather-history", "JFK", "--as-of", "2013-01-15T12:30:00Z")

    assert asked.returncode == 0, asked.stderr
    assert '"time_hour": "2013-01-15T12:00:00Z"' in asked.stdout


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 4])
def test_the_whole_year_is_that_of_sql(tmp_path: Path, year: Path, partitions: int) -> None:
    expected = Expected(year / "data")
    job = FlightsJob(tmp_path, year / "data", {"^partitions = 4": f"partitions = {partitions}"})
    job.finish()

    assert flights(job.out) == expected.flights
    assert delays(job.out) == expected.delays
    assert expected.flights.total() == 336_776


@pytest.mark.slow
def test_january_is_remade_from_the_package(year: Path) -> None:
    for path in (EXAMPLE / "data" / "flights" / "2013-01.csv.gz", EXAMPLE / "data" / "planes.csv.gz"):
        assert gzip.decompress(path.read_bytes()) == gzip.decompress(
            (year / "data" / path.relative_to(EXAMPLE / "data")).read_bytes()
        )
