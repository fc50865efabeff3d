"""Golden cases through small jobs on Ray: with one partition, the lists of Kafka Streams.

A job reads whole topics, and closes windows at their ends; the golden cases interleave them step by step, and have no end. So
of each family those cases are taken of which an embedded job gives the golden lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from raystreams.cluster import submission
from raystreams.cluster.job_record import TaskNeeds

from raystreams import Collect, Job, Record, TopologyError
from tests.cluster.jobs import Lists
from tests.golden import topologies
from tests.golden.test_golden import TOPOLOGIES, cases

pytestmark = pytest.mark.slow

EACH = {family: 2 for family in TOPOLOGIES if family != "errors"} | {"fk_join": 1, "stream_global": 1}
"""So many of each family; of these two there is but one, since elsewhere an answer is superseded, or the table is read first."""


@pytest.fixture(scope="module", autouse=True)
def ray_here() -> Iterator[None]:
    with submission.joined(submission.LOCAL, num_cpus=2):
        yield


Lists_ = Mapping[str, list[list[Any]]]


def job_of(case: dict[str, Any], state_dir: Path | None) -> Job:
    """A job of a case, with names that the golden topologies don't give."""
    topology = replace(topologies.build(case["nodes"]), unnamed_stateful=())
    topics: dict[str, list[Record[Any, Any]]] = {node["topic"]: [] for node in case["nodes"] if "topic" in node}
    sinks = {node["topic"] for node in case["nodes"] if node["op"] == "to"}
    for topic, key, value, timestamp in case["inputs"]:
        topics[topic].append(Record(key, value, timestamp))
    sources: dict[Any, Any] = {topic: Lists(records) for topic, records in topics.items() if topic not in sinks}
    return Job(case["id"], topology, sources=sources, sinks={topic: Collect() for topic in sinks}, state_dir=state_dir)


def lists_of(job: Job) -> Lists_:
    return {
        topic: [[topologies.plain(r.key), topologies.plain(r.value), r.timestamp] for r in sink]
        for topic, sinks in job.bindings.sinks.items()
        for sink in sinks
        if isinstance(sink, Collect)
    }


def golden(case: dict[str, Any]) -> Lists_:
    lists: dict[str, list[list[Any]]] = {node["topic"]: [] for node in case["nodes"] if node["op"] == "to"}
    for _, topic, *row in case["expected"]:
        lists[topic].append(row)
    return lists


def suitable(family: str) -> Iterator[dict[str, Any]]:
    """Cases of which an embedded job gives the golden lists, with at least three rows."""
    for case in cases(family):
        if len(case["expected"]) < 3 or case["expected"][-1][0] == "error":
            continue
        try:
            job = job_of(case, None)
        except (TopologyError, ValueError):
            continue
        job.run()
        if lists_of(job) == golden(case):
            yield case


@pytest.mark.parametrize("family", EACH)
def test_a_job_on_ray_gives_the_golden_lists(family: str, tmp_path: Path) -> None:
    chosen = list(islice(suitable(family), EACH[family]))
    jobs = [job_of(case, tmp_path / case["id"]) for case in chosen]
    for job in jobs:
        submission.submit(job, TaskNeeds(num_cpus=0.1))
    for job in jobs:
        assert submission.follow(job.name).error is None
        submission.collect(job)

    assert len(chosen) == EACH[family]
    assert [lists_of(job) for job in jobs] == [golden(case) for case in chosen]
