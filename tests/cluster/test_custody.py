"""Who has which partition, tick by tick: owners that die, nodes that go, standbys that come and go."""

from __future__ import annotations

from typing import Any

from raystreams.cluster.job_record import TaskNeeds
from raystreams.cluster.orders import Report

from tests.cluster.supervised import Supervised, saved_as, short


def running(nodes: str = "ab", partitions: int = 1, **options: Any) -> Supervised:
    job = Supervised(nodes, partitions, **options)
    job.run()
    return job


def with_standby(*, in_sync: bool = True, nodes: str = "ab", **options: Any) -> Supervised:
    """Partition 0 has its owner on node a and a standby on node b."""
    job = running(nodes, standby_replicas=1, **options)
    if in_sync:
        job.say_of_standby("in sync")
        job.tick()
    return job


# ---- owners


def test_an_owner_that_dies_is_started_again_on_its_disk_under_a_new_name_and_epoch() -> None:
    job = running("ab", 2)
    old, epoch = job.task().owner, job.task().epoch
    job.dies()
    calls = job.tick()

    assert calls == [("save",), ("end", "0-1"), ("launch", "0-5", "a", "state/00000")]
    assert job.task().epoch > epoch and short(job.task().owner) == "0-5"
    assert (job.copies(), job.supervisor.orders_of(old)) == ([("0-5", "a")], None)
    assert job.orders(job.task(1).owner).peers[0].epoch == job.task().epoch


def test_an_owner_whose_node_is_there_is_started_again_though_a_standby_is_in_sync() -> None:
    """Its own files are at hand at once; the standby meets it again."""
    job = with_standby()
    standby = job.standby()
    job.dies()
    calls = job.tick()

    assert calls == [("save",), ("end", "0-1"), ("launch", "0-4", "a", "state/00000")]
    assert job.orders().standbys == {standby: (True, 0)}


def test_where_a_node_is_gone_a_standby_that_is_in_sync_becomes_the_owner() -> None:
    job = with_standby()
    epoch = job.task().epoch
    job.see("b")
    calls = job.tick()

    assert calls == [("save",), ("end", "0-1")]
    assert (short(job.task().owner), job.copies()) == ("0-3", [("0-3", "b")])
    assert job.task().epoch > epoch and not job.task().copies[job.task().owner].in_sync
    assert job.supervisor.missing == []


def test_a_standby_that_is_not_in_sync_does_not_become_the_owner() -> None:
    job = with_standby(in_sync=False)
    job.see("b")
    gone = (job.tick(), short(job.task().owner), job.supervisor.missing, job.record.state)
    job.see("ab")
    calls = job.tick()

    assert gone == ([], "0-1", [0], "running")
    assert calls == [("save",), ("end", "0-1"), ("launch", "0-4", "a", "state/00000")]
    assert job.supervisor.missing == []


def test_a_standby_that_is_dead_does_not_become_the_owner() -> None:
    job = with_standby(nodes="abc")
    job.dies(job.standby())
    job.see("bc")
    job.tick()

    assert (short(job.task().owner), job.supervisor.missing) == ("0-1", [0])


def test_where_nodes_see_one_disk_another_one_takes_over() -> None:
    job = running("abc", shared=[["b"], ["a", "c"]])
    job.see("bc")

    assert job.tick() == [("save",), ("end", "0-1"), ("launch", "0-3", "c", "state/00000")]


def test_a_node_that_sees_the_disk_must_have_room() -> None:
    job = running("abc", shared=[["b"], ["a", "c"]])
    job.see("bc", free=0.5)
    full = (job.tick(), job.supervisor.missing)
    job.see("bc", free=1)

    assert full == ([], [0])
    assert job.tick()[-1] == ("launch", "0-3", "c", "state/00000")


def test_a_partition_whose_disk_nobody_sees_waits() -> None:
    job = running("ab", 2)
    job.see("b")

    assert (job.tick(), job.supervisor.missing) == ([], [0])
    assert (job.record.state, job.copies()) == ("running", [("0-1", "a")])


def test_damaged_files_are_left_to_a_standby_that_is_in_sync() -> None:
    job = with_standby()
    job.report(state="failed", error="damaged", lost_state=True)
    calls = job.tick()

    assert calls[:2] == [("save",), ("end", "0-1")]
    assert (short(job.task().owner), job.record.state, job.record.error) == ("0-3", "running", None)


def test_damaged_files_without_a_standby_that_is_in_sync_fail_the_job() -> None:
    job = with_standby(in_sync=False)
    job.report(state="failed", error="damaged", lost_state=True)
    job.tick()

    assert (short(job.task().owner), job.record.state, job.record.error) == ("0-1", "failed", "damaged")


def test_damaged_files_are_not_opened_again() -> None:
    job = running()
    job.report(state="failed", error="damaged", lost_state=True)
    job.dies()
    calls = job.tick()

    assert [call for call in calls if call[0] == "launch"] == []
    assert (job.record.state, job.record.error) == ("failed", "damaged")


def test_another_failure_is_not_left_to_a_standby() -> None:
    job = with_standby()
    job.report(state="failed", error="ValueError: no")
    job.tick()

    assert (short(job.task().owner), job.record.state) == ("0-1", "failed")


def test_an_actor_that_is_silent_is_replaced() -> None:
    job = running()
    before = job.tick(10)
    calls = job.tick(0.1)

    assert before == []
    assert calls == [("end", "0-1"), ("save",), ("end", "0-1"), ("launch", "0-3", "a", "state/00000")]


def test_an_actor_that_never_starts_is_replaced() -> None:
    job = Supervised()
    before = job.tick(60)
    calls = job.tick(0.1)

    assert before == []
    assert calls == [("end", "0-1"), ("save",), ("end", "0-1"), ("launch", "0-3", "a", "state/00000")]


def test_an_actor_that_never_starts_twice_fails_the_job() -> None:
    job = Supervised()
    for _ in range(2):
        job.tick(60)
        job.tick(0.1)

    assert (job.record.error or "").startswith("no process of partition 0 has started, 2 times")
    assert (job.record.state, job.supervisor.is_over) == ("failed", True)


def test_what_the_dead_say_counts_for_nothing() -> None:
    job = running()
    old = job.task().owner
    job.dies()
    job.say(old, Report(state="failed", error="late"))
    job.tick()
    job.say(old, Report(state="failed", error="late"))
    job.tick()

    assert job.record.state == "running"
    assert job.supervisor.actors.all_names() == [job.task().owner]


# ---- standbys


def test_standbys_are_made_on_other_nodes_once_the_owner_runs() -> None:
    job = Supervised("abc", standby_replicas=2)
    before = job.tick()
    job.report()
    calls = [job.tick(), job.tick(), job.tick()]

    assert before == []
    assert calls == [
        [*saved_as({"0-3": "b state/replica-1/00000"}), ("save",)],  # the job runs, too
        saved_as({"0-4": "c state/replica-2/00000"}),
        [],
    ]


def test_there_are_only_as_many_standbys_as_there_are_nodes_with_room() -> None:
    job = running("ab", standby_replicas=2)
    full = running("ab", standby_replicas=1, needs=TaskNeeds(num_cpus=11))
    calls = (job.tick(), full.tick())
    job.see("abd")

    assert (job.copies(), full.copies()) == ([("0-1", "a"), ("0-3", "b")], [("0-1", "a")])
    assert calls == ([], [])
    assert job.tick() == saved_as({"0-4": "d state/replica-2/00000"})


def test_a_standby_is_written_as_in_sync_when_its_owner_says_so() -> None:
    job = with_standby(in_sync=False)
    job.say_of_standby("in sync")
    before = job.orders().standbys
    calls = job.tick()

    assert (before, calls) == ({job.standby(): (False, 0)}, [("save",)])
    assert job.orders().standbys == {job.standby(): (True, 0)}
    assert job.tick() == []


def test_the_loss_of_a_standby_is_written_before_orders_say_so() -> None:
    job = with_standby()
    job.say_of_standby("lost", 1)
    before = job.orders().standbys
    calls = job.tick()

    assert (before, calls) == ({job.standby(): (True, 0)}, [("save",)])
    assert job.orders().standbys == {job.standby(): (False, 1)}


def test_a_standby_that_was_lost_and_has_caught_up_is_in_sync_again() -> None:
    job = with_standby()
    for phase in ("lost", "behind", "in sync"):
        job.say_of_standby(phase, 1)
        job.tick()

    assert job.orders().standbys == {job.standby(): (True, 1)}


def test_a_standby_that_caught_up_before_anyone_heard_of_its_loss_is_in_sync() -> None:
    job = with_standby(in_sync=False)
    job.say_of_standby("in sync", 2)
    job.tick()

    assert job.orders().standbys == {job.standby(): (True, 2)}


def test_what_was_said_before_a_loss_changes_nothing_after_it() -> None:
    job = with_standby()
    job.say_of_standby("lost", 2)
    job.tick()
    for phase, round in (("in sync", 0), ("in sync", 1), ("lost", 1), ("behind", 2)):
        job.say_of_standby(phase, round)
        assert job.tick() == []

    assert job.orders().standbys == {job.standby(): (False, 2)}


def test_a_report_of_an_older_epoch_changes_nothing() -> None:
    job = with_standby()
    epoch = job.task().epoch
    job.dies()
    job.tick()
    standby = job.standby()
    job.report(epoch=epoch, standbys={standby: ("lost", 5)})
    stale = job.tick()
    job.report(standbys={standby: ("lost", 5)})

    assert (stale, job.orders().standbys) == ([], {standby: (True, 0)})
    assert job.tick() == [("save",)]


def test_a_standby_that_is_not_known_is_not_written() -> None:
    job = running()
    job.report(standbys={"job/0/99": ("in sync", 0)})

    assert job.tick() == []


def test_a_standby_that_dies_is_out_of_the_record_before_another_one_takes_its_disk() -> None:
    job = with_standby()
    job.dies(job.standby())

    assert job.tick() == [
        ("save",), ("end", "0-3"),
        *saved_as({"0-4": "b state/replica-1/00000"}),
    ]  # fmt: skip
    assert job.orders().standbys == {job.standby(): (False, 0)}


def test_a_standby_whose_node_is_gone_is_made_on_another() -> None:
    job = with_standby(nodes="abc")
    job.see("ac")

    assert job.tick() == [("save",), ("end", "0-3"), *saved_as({"0-4": "c state/replica-1/00000"})]


def test_standbys_beyond_their_number_are_dropped() -> None:
    job = running("abc", standby_replicas=2)
    job.tick()
    job.record.standby_replicas = 1

    assert job.tick() == [("save",), ("end", "0-4")]
    assert job.copies() == [("0-1", "a"), ("0-3", "b")]


def test_a_job_that_stops_makes_no_standbys() -> None:
    job = with_standby()
    job.supervisor.want("stop")
    job.dies(job.standby())

    assert job.tick() == []


def test_after_a_promotion_a_new_standby_is_made_once_the_new_owner_runs() -> None:
    job = with_standby(nodes="abc")
    job.see("bc")
    promoted = job.tick()
    before = job.tick()
    job.report()

    assert (promoted, before) == ([("save",), ("end", "0-1")], [])
    assert job.tick() == saved_as({"0-5": "c state/00000"})
