"""What a job's manager decides about the job as a whole, tick by tick: its start, its end, failures, loops, the next manager."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster.job_record import decode, encode
from raystreams.cluster.orders import Mode, Peer, PlannedSplit, Report
from raystreams.cluster.supervision import Supervisor

from tests.cluster.supervised import SPLITS, Supervised, short


def running(partitions: int = 1, nodes: str = "ab", **options: Any) -> Supervised:
    job = Supervised(nodes, partitions, **options)
    job.run()
    return job


# ---- start


def test_all_tasks_are_started() -> None:
    job = Supervised("ab", 3)
    job.fleet.calls.clear()
    job.supervisor.launch_all()

    assert job.fleet.calls == [
        ("launch", "0-1", "a", "state/00000"),
        ("launch", "1-3", "b", "state/00001"),
        ("launch", "2-5", "a", "state/00002"),
    ]


def test_orders_say_who_an_actor_is_and_who_its_peers_are() -> None:
    job = Supervised("ab", 2)
    orders = job.orders()
    other = job.task(1)

    assert (short(orders.owner), orders.incarnation, orders.mode, orders.splits) == ("0-1", 1, "run", None)
    assert orders.epoch == job.task(0).epoch < other.epoch
    assert orders.peers == {1: Peer(other.owner, other.epoch)}
    assert job.supervisor.orders_of("job/0/99") is None


def test_the_splits_that_are_found_first_are_written_before_any_orders_carry_them() -> None:
    job = Supervised("ab", 2)
    job.report(1, "starting", epoch=0, found_splits=SPLITS)
    before = job.orders().splits
    calls = job.tick()
    job.report(0, "starting", epoch=0, found_splits=[PlannedSplit("in", "another", 0, 0, 0, False)])

    assert (before, calls) == (None, [("save",)])
    assert [job.orders(task.owner).splits for task in job.record.tasks.values()] == [SPLITS, SPLITS]
    assert (job.tick(), job.orders().splits) == ([], SPLITS)


def test_the_job_is_running_once_all_its_tasks_are() -> None:
    job = Supervised("ab", 2)
    states = []
    for partition in (0, 1):
        job.report(partition, "starting", epoch=0, found_splits=SPLITS)
    job.tick()
    for partition in (0, 1):
        job.report(partition)
        states.append((job.tick(), job.record.state))

    assert states == [([], "starting"), ([("save",)], "running")]


# ---- what users want


def test_pause_and_run_are_written_and_told() -> None:
    job = running()
    seen = []
    wanted: list[Mode] = ["pause", "pause", "run"]
    for mode in wanted:
        job.fleet.calls.clear()
        job.supervisor.want(mode)
        seen.append((job.fleet.calls[:], job.orders().mode, job.record.state))

    assert seen == [([("save",)], "pause", "paused"), ([], "pause", "paused"), ([("save",)], "run", "running")]


def test_a_stop_ends_when_all_tasks_have_stopped() -> None:
    job = running(2)
    job.supervisor.want("stop")
    job.report(0, "stopped")
    one = (job.tick(), job.record.state, job.supervisor.is_over)
    job.report(1, "stopped")
    calls = job.tick(2)

    assert one == ([], "stopping", False)
    assert calls == [("save",), ("end", "0-1"), ("end", "1-3")]
    assert (job.record.state, job.record.ended_at, job.supervisor.is_over) == ("stopped", 2, True)
    assert job.tick() == []


def test_a_job_that_stops_is_not_run_again() -> None:
    job = running()
    job.supervisor.want("stop")
    job.supervisor.want("run")

    assert job.orders().mode == "stop"


def test_a_stop_does_not_wait_for_a_partition_that_nobody_has() -> None:
    job = running(2)
    job.see("a")
    job.tick()
    job.supervisor.want("stop")
    before = job.tick()
    job.report(0, "stopped")
    job.tick()

    assert (before, job.record.state, job.supervisor.missing) == ([], "stopped", [1])


def test_a_task_that_dies_while_it_stops_is_started_again_to_stop() -> None:
    job = running()
    job.supervisor.want("stop")
    job.dies()
    calls = job.tick()

    assert [call[0] for call in calls] == ["save", "end", "launch"]
    assert (job.orders().mode, job.supervisor.is_over) == ("stop", False)


def test_a_task_that_dies_after_it_has_stopped_is_not_started_again() -> None:
    job = running(2)
    job.supervisor.want("stop")
    job.report(0, "stopped")
    job.dies()
    first = job.tick()
    job.report(1, "stopped")
    job.tick()

    assert (first, job.record.state) == ([], "stopped")
    assert [report.state for report in job.record.last_reports.values()] == ["stopped", "stopped"]


# ---- the end


def test_a_job_whose_tasks_are_done_is_finished() -> None:
    job = running(2)
    job.report(0, is_done=True)
    job.report(1)
    one = (job.tick(), job.orders().mode)
    job.report(1, is_done=True)
    both = (job.tick(), job.orders().mode)
    job.report_all("finished", taken={"in": 2}, sinks={"out": 3}, dropped=[("node", "why", 1)])
    calls = job.tick(5)

    assert (one, both) == (([], "run"), ([("save",)], "finish"))
    assert calls == [("save",), ("end", "0-1"), ("end", "1-3")]
    assert (job.record.state, job.record.outcome.seconds) == ("finished", 5)
    assert (job.record.outcome.sources, job.record.outcome.sinks) == ({"in": 4}, {"out": 6})
    assert (job.record.outcome.dropped, job.record.outcome.already_finished) == ([("node", "why", 2)], False)


def test_a_finish_waits_for_a_partition_that_nobody_has_at_the_moment() -> None:
    job = running(2)
    job.report_all(is_done=True)
    job.tick()
    job.report(0, "finished")
    job.see("a")
    waiting = (job.tick(), job.supervisor.missing, job.record.state)
    job.see("ab")
    calls = job.tick()
    job.report(1, "finished")
    job.tick()

    assert waiting == ([], [1], "running")
    assert [call[0] for call in calls] == ["save", "end", "launch"]
    assert job.record.state == "finished"


def test_a_paused_job_is_not_finished() -> None:
    job = running()
    job.supervisor.want("pause")
    job.report_all("paused", is_done=True)

    assert (job.tick(), job.orders().mode) == ([], "pause")


# ---- failures


def test_a_task_that_fails_stops_the_others_and_the_job_keeps_its_error() -> None:
    job = running(2)
    job.report(1, "failed", error="ValueError: no")
    first = (job.tick(), job.record.state, job.orders().mode, job.supervisor.is_over)
    job.report(0, "failed", error="another")
    calls = job.tick()

    assert first == ([("save",)], "stopping", "stop", False)
    assert calls == [("save",), ("end", "0-1"), ("end", "1-3")]
    assert (job.record.state, job.record.error, job.supervisor.is_over) == ("failed", "ValueError: no", True)


def test_nobody_wants_anything_of_a_job_that_fails() -> None:
    job = running(2)
    job.report(1, "failed", error="no")
    job.tick()
    job.supervisor.want("run")

    assert (job.record.state, job.record.mode, job.record.error) == ("stopping", "stop", "no")


def test_a_task_that_dies_again_and_again_fails_the_job_with_the_reason() -> None:
    job = running(2)
    seen = []
    for _ in range(7):
        job.dies()
        job.tick(1)
        seen.append(job.record.state)

    assert seen == ["running"] * 6 + ["stopping"]
    assert job.record.error == "partition 0 died 7 times within 60 s. The last time: killed"
    job.report(1, "stopped")
    job.tick()
    assert (job.supervisor.is_over, job.record.state) == (True, "failed")


def test_the_first_error_is_the_one_that_is_kept() -> None:
    job = running(2)
    job.report(1, "failed", error="no")
    for _ in range(7):
        job.dies()
        job.tick()

    assert job.record.error == "no"


def test_deaths_of_long_ago_do_not_count() -> None:
    job = running()
    for _ in range(20):
        job.dies()
        job.tick(10.1)
        job.report()

    assert job.record.state == "running"


# ---- loops


def quiet(job: Supervised, activities: list[int], **fields: Any) -> list[str]:
    """Each task reports twice, and the supervisor looks."""
    for _ in range(2):
        for partition, activity in enumerate(activities):
            job.report(partition, activity=activity, **{"is_quiet": True, **fields})
    return [call[0] for call in job.tick()]


def test_loops_end_when_all_was_quiet_twice_with_nothing_done_in_between() -> None:
    job = running(2)
    looks = [(quiet(job, activities), job.record.loops_ended) for activities in ([3, 4], [3, 5], [4, 5], [4, 5])]

    assert looks == [([], 0), ([], 0), ([], 0), (["save"], 1)]
    assert job.orders().loops_ended == 1


def test_loops_end_again_when_ending_them_has_moved_something() -> None:
    job = running(2)
    for activities in ([3, 4], [3, 4], [5, 5], [5, 5]):
        quiet(job, activities)

    assert job.record.loops_ended == 2


def test_a_look_that_is_not_quiet_begins_anew() -> None:
    job = running(2)
    for activities, is_quiet in (([3, 4], True), ([3, 4], False), ([3, 4], True)):
        quiet(job, activities, is_quiet=is_quiet)

    assert job.record.loops_ended == 0


def test_a_report_that_was_on_its_way_at_the_first_look_does_not_count_for_the_second() -> None:
    job = running(2)
    quiet(job, [3, 4])
    job.report_all(is_quiet=True, activity=3)
    job.tick()
    job.report(0, is_quiet=True, activity=3)
    job.tick()

    assert job.record.loops_ended == 0


def test_another_incarnation_with_the_same_activity_has_done_something() -> None:
    job = running()
    quiet(job, [3])
    job.dies()
    job.tick()
    quiet(job, [3])
    after = job.record.loops_ended
    quiet(job, [3])

    assert (after, job.record.loops_ended) == (0, 1)


@pytest.mark.parametrize("mode", ["pause", "stop"])
def test_loops_do_not_end_unless_the_job_runs(mode: Mode) -> None:
    job = running(2)
    job.supervisor.want(mode)
    for _ in range(3):
        quiet(job, [3, 4])

    assert job.record.loops_ended == 0


def test_there_are_no_loops_to_end_where_all_is_done() -> None:
    job = running(2)
    for _ in range(3):
        quiet(job, [3, 4], is_done=True)

    assert job.record.loops_ended == 0


# ---- the next manager


def test_the_next_manager_adopts_what_runs() -> None:
    job = running(2, standby_replicas=1)
    job.report_all()
    job.tick()
    before = encode(job.record)
    record = decode(job.fleet.saved)
    record.incarnation, record.counter = 2, 0
    job.fleet.save(record)
    job.supervisor = Supervisor(record, job.fleet, 1000.0)
    job.now = 1000.0
    job.see("ab")
    silent = job.tick(5)
    names = [name for task in record.tasks.values() for name in task.copies]
    for name in names:
        job.say(name, Report(state="standby"))
    job.report_all()
    heard = job.tick()

    assert (silent, heard) == ([], [])
    assert sorted(job.supervisor.actors.names()) == sorted(names) and len(names) == 4
    assert (job.orders().incarnation, job.orders().splits) == (2, SPLITS)
    assert [(task.owner, task.epoch) for task in record.tasks.values()] == [
        (task.owner, task.epoch) for task in decode(before).tasks.values()
    ]


def test_names_and_epochs_of_the_next_manager_are_new_ones() -> None:
    job = running()
    old = (job.task().owner, job.task().epoch)
    record = decode(job.fleet.saved)
    record.incarnation, record.counter = 2, 0
    job.fleet.save(record)
    job.supervisor = Supervisor(record, job.fleet, 0.0)
    job.see("ab")
    job.dies()
    job.tick()

    assert job.task().epoch > old[1] and job.task().owner != old[0]


def test_an_actor_that_the_next_manager_never_hears_of_is_replaced() -> None:
    job = running()
    record = decode(job.fleet.saved)
    record.incarnation, record.counter = 2, 0
    job.fleet.save(record)
    job.supervisor = Supervisor(record, job.fleet, 0.0)
    job.see("ab")

    assert (job.tick(60), [call[0] for call in job.tick(0.1)]) == ([], ["end", "save", "end", "launch"])
