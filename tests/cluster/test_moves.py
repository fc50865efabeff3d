"""Partitions that move to other nodes, tick by tick: a standby is made there, and becomes the owner once it is in sync."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.job_record import encode

from tests.cluster.supervised import Supervised, saved_as, short


def running(nodes: str, partitions: int, **options: Any) -> Supervised:
    job = Supervised(nodes, partitions, **options)
    job.run()
    return job


def rebalance(job: Supervised, *leave: str) -> dict[int, str]:
    """What users ask for; returns the moves that were begun."""
    job.supervisor.custody.rebalance(list(leave))
    return {partition: task.goes_to for partition, task in job.record.tasks.items() if task.goes_to}


def owners(job: Supervised) -> list[str]:
    return [task.copies[task.owner].node for task in job.record.tasks.values()]


def test_a_partition_moves_to_a_new_node() -> None:
    job = running("a", 2)
    job.see("ab")
    moves = rebalance(job)
    begun = job.tick()
    job.say_of_standby("behind", partition=1)
    behind = job.tick()
    job.say_of_standby("in sync", partition=1)
    calls = job.tick()
    job.report(1)
    after = job.tick()

    assert (moves, begun, behind) == ({1: "b"}, saved_as({"1-5": "b state/replica-1/00001"}), [])
    assert calls == [("save",), ("save",), ("end", "1-3")]  # in sync; another owner
    assert (owners(job), job.copies(1), job.task(1).goes_to, after) == (["a", "b"], [("1-5", "b")], "", [])


def test_a_node_that_is_left_has_nothing_of_the_job_afterwards() -> None:
    job = running("ab", 2, standby_replicas=1)
    job.see("abc")
    for _ in range(2):
        job.report_all()
        job.tick()
    moves = rebalance(job, "a")
    for _ in range(6):
        for partition, task in job.record.tasks.items():
            job.report(partition, standbys={name: ("in sync", 0) for name in task.copies if name != task.owner})
        job.tick()

    assert moves == {0: "c"}
    assert owners(job) == ["c", "b"]
    assert [sorted(node for _, node in job.copies(partition)) for partition in (0, 1)] == [["b", "c"], ["b", "c"]]


def test_a_standby_on_a_node_that_is_left_is_made_on_another() -> None:
    job = running("ab", 1, standby_replicas=1)
    job.see("abc")
    before = job.copies()
    moves = rebalance(job, "b")

    assert (before, moves) == ([("0-1", "a"), ("0-3", "b")], {})
    assert job.tick() == [("save",), ("end", "0-3"), *saved_as({"0-4": "c state/replica-1/00000"})]


def test_a_node_that_was_left_may_be_used_again() -> None:
    job = running("ab", 2)
    rebalance(job, "b")
    left = list(job.record.leave_nodes)

    assert (left, rebalance(job), job.record.leave_nodes) == (["b"], {}, [])


def test_a_node_is_not_left_where_there_is_no_room_elsewhere_and_nothing_has_changed() -> None:
    job = running("ab", 2)
    job.see("ab", free=0.5)
    before = encode(job.record)
    job.fleet.calls.clear()

    with pytest.raises(ConfigError, match=r"not enough resources: 2 tasks need 1 CPU each.*node b: 0.5 CPU"):
        rebalance(job, "a")
    assert (encode(job.record), job.fleet.calls) == (before, [])


def test_a_standby_that_is_there_already_is_what_the_partition_moves_to() -> None:
    job = running("ab", 1, standby_replicas=1)
    job.say_of_standby("in sync")
    job.tick()
    rebalance(job, "a")

    assert job.tick() == [("save",), ("end", "0-1")]
    assert (owners(job), short(job.task().owner)) == (["b"], "0-3")


def test_a_move_is_given_up_when_its_node_goes() -> None:
    job = running("a", 2)
    job.see("ab")
    rebalance(job)
    job.tick()
    job.report_all()
    job.see("a")
    calls = job.tick()

    assert calls == [("save",), ("end", "1-5"), ("save",)]
    assert (job.task(1).goes_to, job.copies(1)) == ("", [("1-3", "a")])


def test_an_owner_that_dies_while_it_moves_is_started_again_and_goes_on_moving() -> None:
    job = running("a", 2)
    job.see("ab")
    rebalance(job)
    job.tick()
    job.say_of_standby("in sync", partition=1)
    job.dies(job.task(1).owner)
    died = job.tick()
    before = job.task(1).owner
    job.say_of_standby("in sync", partition=1)
    job.tick()

    assert [call[:2] for call in died] == [("save",), ("end", "1-3"), ("launch", "1-6")]
    assert short(before) == "1-6" and owners(job) == ["a", "b"]


def test_the_owner_must_run_when_a_partition_moves() -> None:
    """One that has been started and has not told its epoch may not have told what its standby lacks."""
    job = running("a", 2)
    job.see("ab")
    rebalance(job)
    job.tick()
    job.task(1).copies[job.standby(1)].in_sync = True
    job.dies(job.task(1).owner)
    job.tick()
    job.report(1, "starting", epoch=0)
    job.tick()
    before = owners(job)
    job.report(1)
    job.tick()

    assert (before, owners(job)) == (["a", "a"], ["a", "b"])


def test_a_job_that_stops_moves_nothing() -> None:
    job = running("a", 2)
    job.see("ab")
    rebalance(job)
    job.supervisor.want("stop")

    assert job.tick() == []


def test_another_rebalance_takes_the_place_of_the_last_one() -> None:
    job = running("a", 2)
    job.see("ab")
    rebalance(job)
    job.tick()
    moves = rebalance(job, "b")
    job.report_all()
    calls = job.tick()

    assert (moves, job.copies(1)) == ({}, [("1-3", "a")])
    assert calls == [("save",), ("end", "1-5")]


def test_a_move_is_over_when_the_owner_had_to_be_started_there() -> None:
    job = running("ab", 2, shared=[["a", "b", "c"]])
    job.see("abc")
    rebalance(job, "a")
    job.see("c")
    job.tick()
    owner = job.task(0).owner

    assert (owners(job), job.task(0).goes_to, list(job.task(0).copies)) == (["c", "c"], "", [owner])
