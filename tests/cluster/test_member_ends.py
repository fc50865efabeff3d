"""How a task of a cluster pauses, stops and finishes: what is committed, what has left, what the next start finds."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster.rows import lineage_of
from raystreams.cluster.state_check import was_finished

from tests.cluster.members import Members, again, alone, left_to_write, replicate, with_standby
from tests.cluster.pairs import HERE, THERE, counting


def test_a_task_that_pauses_commits_what_it_has_and_takes_nothing_until_it_runs_again() -> None:
    made = alone()
    task, shell = made.members[0], made.shells[0]
    shell.give((None, "a"))
    task.turn()
    made.order_all("pause")
    shell.give((None, "b"))
    made.rounds(3)
    paused = (shell.taken, shell.written[:], task.is_over)
    made.order_all("run")
    made.rounds(2)

    assert paused == (1, [("a", 1)], False)
    assert shell.written == [("a", 1), ("b", 1)]


def test_a_task_that_stops_commits_what_it_has_and_then_what_its_sinks_have_written() -> None:
    made = alone()
    task, shell = made.members[0], made.shells[0]
    shell.give((None, "a"))
    task.turn()
    before = (shell.written[:], task.is_over)
    made.order_all("stop")
    task.turn()
    task.turn()

    assert before == ([], False)
    assert (shell.written, task.is_over, task.due()) == ([("a", 1)], True, [])
    assert left_to_write(made) == [] and not was_finished(again(made))


def test_a_task_that_finishes_says_so_in_its_files() -> None:
    made = alone(ends=True)
    made.rounds(3)
    done = made.members[0].is_done
    made.order_all("finish")
    made.rounds(1)

    assert (done, made.members[0].is_over) == (True, True)
    assert was_finished(again(made))


def test_a_task_that_is_over_does_nothing_whatever_it_is_told() -> None:
    made = alone()
    made.order_all("stop")
    made.rounds(2)
    made.order_all("run")
    made.shells[0].give((None, "a"))
    commits = made.members[0].commits

    assert not made.members[0].turn()
    assert (made.members[0].commits, made.shells[0].taken) == (commits, 0)


def test_a_task_that_runs_again_before_it_was_over_commits_once_more_at_its_stop() -> None:
    made, task, standby = with_standby()
    task.follow(made.orders(0, mode="stop", standbys={"s": (True, 0)}))
    task.turn()
    task.follow(made.orders(0, mode="run", standbys={"s": (True, 0)}))
    replicate(task, standby)
    made.shells[0].give((None, HERE))
    task.turn()
    task.follow(made.orders(0, mode="stop", standbys={"s": (True, 0)}))
    for _ in range(3):
        task.turn()
        replicate(task, standby)

    assert (task.is_over, made.shells[0].taken, made.shells[0].written) == (True, 1, [(HERE, 1)])


@pytest.mark.parametrize("mode", ["stop", "finish"])
def test_an_end_waits_for_standbys(mode: Any) -> None:
    made, task, standby = with_standby()
    task.follow(made.orders(0, mode=mode, standbys={"s": (True, 0)}))
    made.clock.now += 1
    task.turn()
    task.turn()
    before = task.is_over
    replicate(task, standby)
    task.turn()

    assert (before, task.is_over) == (False, True)
    assert standby.lineage == lineage_of(made.shells[0].database)
    assert was_finished(standby.database) is (mode == "finish")


@pytest.mark.parametrize("mode", ["stop", "finish"])
def test_an_end_waits_until_standbys_have_what_sinks_have_written_too(mode: Any) -> None:
    made, task, standby = with_standby()
    for _ in range(2):
        made.shells[0].give((None, HERE))
        task.turn()
        replicate(task, standby)
    task.follow(made.orders(0, mode=mode, standbys={"s": (True, 0)}))
    seen = []
    for _ in range(3):
        task.turn()
        seen.append((made.shells[0].written[:], task.is_over, standby.lineage == lineage_of(made.shells[0].database)))
        replicate(task, standby)

    first, second = (HERE, 1), (HERE, 2)
    assert seen == [([first], False, False), ([first, second], False, False), ([first, second], True, True)]


def test_a_stop_leaves_what_a_sink_does_not_take_to_the_next_start() -> None:
    made = alone()
    made.shells[0].sink_takes = False
    made.shells[0].give((None, "a"))
    made.rounds(2)
    before = made.members[0].is_over
    made.order_all("stop")
    made.rounds(2)

    assert (before, made.members[0].is_over, made.shells[0].written) == (False, True, [])
    assert left_to_write(made) == [("a", 1)]


def test_a_finish_waits_until_the_sink_takes_what_is_left() -> None:
    made = alone()
    made.shells[0].sink_takes = False
    made.shells[0].give((None, "a"))
    made.rounds(1)
    made.order_all("finish")
    made.rounds(3)
    before = made.members[0].is_over
    made.shells[0].sink_takes = True
    made.rounds(3)

    assert (before, made.members[0].is_over, made.shells[0].written) == (False, True, [("a", 1)])
    assert left_to_write(made) == []


def test_two_tasks_come_to_their_end_together() -> None:
    made = Members(counting())
    made.shells[0].give(*((None, value) for value in (THERE, HERE, THERE)))
    made.rounds(8)
    done = [task.is_done for task in made.members]
    made.order_all("finish")
    made.rounds(2)

    assert done == [True, True] and [task.is_over for task in made.members] == [True, True]
    assert [shell.written for shell in made.shells] == [[(HERE, 1)], [(THERE, 1), (THERE, 2)]]
    assert [was_finished(again(made, partition)) for partition in (0, 1)] == [True, True]
