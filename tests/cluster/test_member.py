"""A task among others, turn by turn: when it commits, what leaves after that, and how it comes to its end."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster import member
from raystreams.cluster.links import FencedError, Packet, Reply
from raystreams.cluster.member import IDLE_SECONDS, TaskMember
from raystreams.cluster.replication import Replicated
from raystreams.cluster.rows import lineage_of
from raystreams.cluster.standby import MemoryPlace, Standby
from raystreams.cluster.state_check import was_finished
from raystreams.cluster.task_shell import COMMIT_SECONDS
from raystreams.stores.database import TaskDatabase
from raystreams.stores.memory import MemoryEngine

from raystreams import StreamsBuilder, Topology
from tests.cluster.members import Members
from tests.cluster.pairs import HERE, THERE, counting


def alone(*, ends: bool = False) -> Members:
    """One task that has read, committed and written something, and waits for more."""
    made = Members(counting(), 1, ends=ends)
    made.shells[0].give((None, "first"))
    made.rounds(4)
    if not ends:  # one more now, so that the next commit is not due by its time
        made.shells[0].give((None, "second"))
        made.members[0].turn()
    made.shells[0].written.clear()
    made.shells[0].taken = made.shells[0].asked = 0
    return made


def with_standby(partition: int = 0) -> tuple[Members, TaskMember, Standby]:
    """A task of two with a standby that has caught up; nothing was read."""
    made = Members(counting(), ends=False)
    made.rounds(3)
    task, standby = made.members[partition], Standby(MemoryPlace({"partition": partition}))
    task.follow(made.orders(partition, standbys={"s": (False, 0)}))
    replicate(task, standby)
    return made, task, standby


def replicate(task: TaskMember, standby: Standby) -> None:
    while due := task.replicas_due():
        for name, asked in due:
            task.replicated(name, asked, standby.handle(asked))


def again(made: Members, partition: int = 0) -> TaskDatabase:
    """The files of a task, as the next start finds them."""
    made.shells[partition].database.close()
    return TaskDatabase.open(None, {"partition": partition}, engine=made.engines[partition])


# ---- what leaves


def test_a_commit_leaves_once_its_standbys_have_it() -> None:
    made, task, standby = with_standby()
    made.shells[0].give((None, HERE), (None, THERE))
    made.clock.now += 1
    task.turn()
    made.shells[0].give((None, HERE))
    before = (made.shells[0].written[:], task.due(), task.turn(), made.shells[0].taken)
    replicate(task, standby)
    task.turn()
    (packet,) = task.due()

    assert before == ([], [], False, 2)
    assert standby.lineage == lineage_of(made.shells[0].database)
    assert made.shells[0].written == [(HERE, 1)]
    assert [run.count for run in packet.message.runs] == [1]
    assert made.shells[0].taken == 3


def test_a_task_that_waits_for_a_standby_takes_packets_and_leaves_them_in_their_channels() -> None:
    made, task, standby = with_standby(1)
    seen = []
    for _ in range(3):
        made.shells[0].give((None, THERE))
        made.rounds(1)
        task.turn()
        seen.append((task.processed, task.task.waiting, made.shells[1].written[:]))
    replicate(task, standby)
    task.turn()

    assert seen == [(1, 0, []), (1, 1, []), (1, 2, [])]
    assert made.members[0].links.taken_by_peers() == {1: 3}
    assert (task.processed, made.shells[1].written) == (3, [(THERE, 1)])


def test_a_lost_standby_holds_the_task_until_orders_let_go_of_it() -> None:
    made, task, _ = with_standby()
    made.shells[0].give((None, HERE))
    made.clock.now += 1
    task.turn()
    ((name, asked),) = task.replicas_due()
    task.replica_lost(name, asked)
    task.turn()
    before = made.shells[0].written[:]
    task.follow(made.orders(0, standbys={"s": (False, 1)}))
    task.turn()

    assert (before, made.shells[0].written) == ([], [(HERE, 1)])


def test_a_standby_that_knows_a_later_incarnation_ends_the_task() -> None:
    made, task, _ = with_standby()
    made.shells[0].give((None, HERE))
    made.clock.now += 1
    task.turn()
    ((name, asked),) = task.replicas_due()

    with pytest.raises(FencedError):
        task.replicated(name, asked, Replicated(fenced=True))


def test_orders_for_a_later_incarnation_end_the_task() -> None:
    made = alone()

    with pytest.raises(FencedError):
        made.members[0].follow(made.orders(0, epoch=2))


def test_a_sink_that_takes_nothing_is_asked_again_with_the_same_records_and_not_before_it_wants_to_be() -> None:
    made = alone()
    shell, task = made.shells[0], made.members[0]
    shell.give((None, "a"))
    shell.sink_takes = False
    made.rounds(1)
    asked = shell.asked
    task.sinks_wait_until = made.clock.now + 5
    made.rounds(4)
    early = (shell.asked, shell.written[:])
    shell.sink_takes = True
    made.rounds(1)

    assert (asked, early) == (1, (1, []))
    assert shell.written == [("a", 1)]


# ---- when it commits


def test_the_first_commit_is_due_at_once() -> None:
    made = Members(counting(), 1)
    made.shells[0].give((None, "a"))
    made.members[0].turn()

    assert (made.members[0].commits, made.shells[0].written) == (1, [("a", 1)])


def test_with_nothing_more_to_do_a_commit_comes_soon() -> None:
    made = alone()
    task, before = made.members[0], made.members[0].commits
    made.shells[0].give((None, "a"))
    seen = []
    for passed in (0.0, IDLE_SECONDS / 2, IDLE_SECONDS / 2 + 0.0001):
        made.clock.now += passed
        task.turn()
        task.turn()
        seen.append(task.commits - before)

    assert seen == [0, 0, 1]


def test_with_more_to_do_a_commit_comes_when_its_time_has() -> None:
    made = alone()
    task, before = made.members[0], made.members[0].commits
    seen = []
    for _ in range(3):
        made.shells[0].give((None, "a"))
        task.turn()
        seen.append(task.commits - before)
        made.clock.now += COMMIT_SECONDS / 2 + 0.0001

    assert seen == [0, 0, 1]


def test_with_more_to_do_a_commit_comes_after_so_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "COMMIT_RECORDS", 10)  # each is processed twice: on its way to its key, and there
    made = alone()
    task, before = made.members[0], made.members[0].commits
    seen = []
    for _ in range(4):
        made.shells[0].give((None, "a"), (None, "b"))
        task.turn()
        seen.append(task.commits - before)

    assert seen == [0, 0, 1, 1]


def test_where_a_commit_takes_long_the_next_one_waits_longer() -> None:
    class Slow(MemoryEngine):
        def write(self, operations: Any, /, *, sync: bool) -> None:
            made.clock.now += 0.1
            super().write(operations, sync=sync)

    made = Members(counting(), 1, ends=False)
    made.engines[0] = Slow()
    made.shells[0] = made._shell(0, False)
    task = made.members[0] = TaskMember(made.shells[0], 1, clock=made.clock)
    made.order_all()
    made.shells[0].give((None, "a"))
    task.turn()
    made.shells[0].give((None, "a"))
    seen = []
    for passed in (0.0, 0.15, 0.1):
        made.clock.now += passed
        task.turn()
        seen.append(task.commits)

    assert seen == [1, 1, 2]


def test_what_sinks_have_written_is_committed_later_and_then_nothing_more() -> None:
    made = alone()
    task = made.members[0]
    made.shells[0].give((None, "a"))
    made.rounds(1)
    commits = [task.commits]
    task.turn()
    commits.append(task.commits)
    made.rounds(1)
    commits.append(task.commits)
    made.rounds(3)
    commits.append(task.commits)

    assert [number - commits[0] for number in commits] == [0, 0, 1, 1]
    assert task.task.outputs.topics() == []


# ---- pause, stop, finish


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
    assert task.task.outputs.topics() == [] and not was_finished(again(made))


def test_a_task_that_finishes_says_so_in_its_files() -> None:
    made = alone(ends=True)
    made.rounds(3)
    done = made.members[0].is_done
    made.order_all("finish")
    made.rounds(1)

    assert (done, made.members[0].is_over) == (True, True)
    assert was_finished(again(made))


def test_a_task_that_is_over_does_nothing() -> None:
    made = alone()
    made.order_all("stop")
    made.rounds(2)
    made.shells[0].give((None, "a"))
    commits = made.members[0].commits

    assert not made.members[0].turn()
    assert (made.members[0].commits, made.shells[0].taken) == (commits, 0)


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


def test_a_stop_leaves_what_a_sink_does_not_take_to_the_next_start() -> None:
    made = alone()
    made.shells[0].sink_takes = False
    made.shells[0].give((None, "a"))
    made.rounds(2)
    before = made.members[0].is_over
    made.order_all("stop")
    made.rounds(2)

    assert (before, made.members[0].is_over, made.shells[0].written) == (False, True, [])
    (batch,) = made.members[0].task.outputs.pending("out")
    assert [(record.key, record.value) for record in batch.records] == [("a", 1)]


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
    assert made.members[0].task.outputs.topics() == []


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


# ---- quiet, and loops


def test_who_sees_that_all_is_quiet_sees_what_was_done_before_too() -> None:
    """What is read first, `is_quiet`, is taken back before the activity changes, and both before anything is done."""
    changes: list[tuple[int, bool, bool]] = []

    class Watched(TaskMember):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "activity":
                changes.append((value, self.is_quiet, self.is_done))
            super().__setattr__(name, value)

    made = Members(counting())
    task = made.members[1] = Watched(made.shells[1], 1, clock=made.clock)
    made.order_all()
    made.shells[0].ends = False
    made.rounds(6)
    was_quiet, before = task.is_quiet, task.activity
    made.shells[0].give((None, THERE))
    at_arrival: list[tuple[int, bool]] = []
    receive = task.links.receive

    def watched(packet: Packet) -> tuple[Reply, bool]:
        at_arrival.append((task.activity, task.is_quiet))
        return receive(packet)

    task.links.receive = watched  # type: ignore[method-assign]  # the moment before anything is taken
    made.rounds(2)

    assert was_quiet and at_arrival[0] == (before + 1, False)
    assert [change[1:] for change in changes] == [(False, False)] * len(changes)


def looping() -> Topology:
    """Each number above one comes back under the key of the other task, halved."""
    builder = StreamsBuilder()
    both = builder.stream("in").merge(builder.stream("loop"))
    both.to("out")
    both.filter(lambda key, n: n > 1).map(lambda key, n: (HERE if key == THERE else THERE, n // 2)).to("loop")
    return builder.build()


def test_loops_end_when_orders_say_so_once_more() -> None:
    made = Members(looping())
    made.shells[0].give((HERE, 8))
    made.rounds(12)
    before = [(task.is_quiet, task.is_done, task.activity) for task in made.members]
    made.order_all(loops_ended=0)
    made.rounds(3)
    unmoved = [(task.is_quiet, task.is_done, task.activity) for task in made.members]
    made.order_all(loops_ended=1)
    after_orders = [task.is_quiet for task in made.members]
    made.rounds(6)

    assert [shell.written for shell in made.shells] == [[(HERE, 8), (HERE, 2)], [(THERE, 4), (THERE, 1)]]
    assert [task[:2] for task in before] == [(True, False)] * 2 and unmoved == before
    assert after_orders == [False, False]
    assert [task.is_done for task in made.members] == [True, True]


def test_loops_do_not_end_while_something_is_on_its_way() -> None:
    made = Members(looping())
    made.shells[0].give((HERE, 8))
    made.rounds(2)
    made.order_all(loops_ended=1)
    made.rounds(12)

    assert [shell.written for shell in made.shells] == [[(HERE, 8), (HERE, 2)], [(THERE, 4), (THERE, 1)]]
    assert [task.is_done for task in made.members] == [False, False]


def test_loops_that_were_ended_before_this_task_started_are_not_ended_again() -> None:
    made = Members(looping())
    made.members[1] = TaskMember(made.shells[1], 1, clock=made.clock)
    made.members[1].follow(made.orders(1, loops_ended=3))
    made.rounds(6)
    made.members[1].follow(made.orders(1, loops_ended=3))
    before = made.members[1].activity
    made.members[1].follow(made.orders(1, loops_ended=4))

    assert made.members[1].activity == before + 1
