"""A job whose function raises as long as a file says so, and prints as it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raystreams import ClusterSettings, Collect, Job, Materialized, StreamsBuilder, Topic, Topology
from tests.cluster.jobs import Lists, numbers

NUMBERS, TOTALS = Topic("numbers", key=str, value=int), Topic("totals", key=str, value=int)
COUNTS = Materialized.key_value("counts", key=str, value=int)


def topology(broken: str, bad: int) -> Topology:
    """Counts numbers; fails at one of them while there is a file."""

    def fails(value: int) -> int:
        if value == bad and Path(broken).exists():
            raise ValueError("it is broken")
        if value % 50 == 0:
            print(f"at {value}")
        return value

    builder = StreamsBuilder()
    checked = builder.stream(NUMBERS).map_values(fails, name="check")
    checked.group_by_key(name="by-key").count(materialized=COUNTS).to_stream().to(TOTALS)
    return builder.build()


def job_of(folder: Path, name: str, *, bad: int = 120, count: int = 200, cluster: ClusterSettings | None = None) -> Job:
    """The job, of two partitions."""
    made = Job(
        name, topology(str(folder / "broken"), bad), sources={NUMBERS: Lists(numbers(count))}, sinks={TOTALS: Collect()},
        partitions=2, state_dir=folder / "state", cluster=cluster or ClusterSettings(num_cpus=0.2),
    )  # fmt: skip
    made.folder = Path(__file__).parent
    return made


def expected(count: int = 200) -> dict[Any, int]:
    """The last total of each key."""
    totals: dict[Any, int] = {}
    for record in numbers(count):
        totals[record.key] = totals.get(record.key, 0) + 1
    return totals
