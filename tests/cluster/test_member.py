"""A task among others, turn by turn: when it commits, what leaves after that, and when all is quiet."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster import member
from raystreams.cluster.links import FencedError, Packet, Reply
from raystreams.cluster.member import IDLE_SECONDS, TaskMember
from raystreams.cluster.replication import Replicated
from raystreams.cluster.rows import Rows, lineage_of
from raystreams.cluster.task_shell import COMMIT_SECONDS
from raystreams.stores.memory import MemoryEngine

from raystreams import StreamsBuilder, Topology
from tests.cluster.members import Members, again, alone, left_to_write, replicate, with_standby
from tests.cluster.pairs import HERE, THERE, counting

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


def test_what_an_earlier_incarnation_committed_and_did_not_let_out_waits_for_the_standby_too() -> None:
    """Else, if the node is lost now, the standby would give the batch's number to another one."""
    made, task, standby = with_standby()
    made.shells[0].give((None, HERE))
    made.clock.now += 1
    task.turn()
    made.shells[0].database.close()
    shell = made.shells[0] = made._shell(0, False)
    now = TaskMember(shell, 2, clock=made.clock)
    now.follow(made.orders(0, epoch=2, standbys={"s": (True, 0)}))
    before = (now.turn(), shell.opened, shell.written[:], now.due())
    replicate(now, standby)
    copied = standby.lineage == lineage_of(shell.database)
    now.turn()

    assert before == (False, 0, [], [])
    assert (copied, shell.opened, shell.written) == (True, 1, [(HERE, 1)])


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
    made.clock.now += COMMIT_SECONDS / 2
    task.turn()
    commits.append(task.commits)
    made.rounds(1)
    commits.append(task.commits)
    made.rounds(3)
    commits.append(task.commits)

    assert [number - commits[0] for number in commits] == [0, 0, 1, 1]
    assert left_to_write(made) == []


def test_that_a_source_has_ended_is_committed_soon() -> None:
    made = alone()
    task, before = made.members[0], made.members[0].commits
    made.shells[0].ends = True
    task.turn()
    made.clock.now += IDLE_SECONDS + 0.0001
    task.turn()

    assert task.commits == before + 1


def test_what_peers_have_committed_is_committed_here_though_nothing_else_happens() -> None:
    made = Members(counting(), ends=False)
    made.shells[0].give((None, THERE))
    made.rounds(10)
    before = [task.commits for task in made.members]
    made.rounds(5)
    outbox = [name for name, _ in Rows(again(made), "_outbox").scan()]

    assert outbox == []
    assert [task.commits for task in made.members] == before


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


def test_what_a_turn_does_shows_in_the_activity_and_a_turn_that_does_nothing_does_not() -> None:
    made = alone()
    task = made.members[0]
    activities = [task.activity]
    for value in (None, "a", None):
        if value is not None:
            made.shells[0].give((None, value))
        task.turn()
        activities.append(task.activity)

    assert [activity - activities[0] for activity in activities] == [0, 0, 1, 1]


def at_the_end_of_its_source() -> Members:
    """The last record and the end are processed, and not committed."""
    made = alone()
    made.shells[0].ends = True
    made.shells[0].give((None, "a"))
    made.members[0].turn()
    made.members[0].turn()
    made.clock.now += IDLE_SECONDS + 0.0001
    return made


def test_a_task_whose_sink_has_not_taken_everything_is_neither_done_nor_quiet() -> None:
    made = at_the_end_of_its_source()
    made.shells[0].sink_takes = False
    made.rounds(3)
    task = made.members[0]

    assert made.shells[0].is_finished and made.shells[0].is_quiet
    assert (task.is_done, task.is_quiet) == (False, False)


def test_a_task_is_not_done_before_what_its_sink_has_written_is_committed() -> None:
    made = at_the_end_of_its_source()
    task = made.members[0]
    task.turn()
    task.turn()
    written = (made.shells[0].written[:], made.shells[0].is_finished, task.is_done, task.is_quiet)
    made.rounds(2)

    assert written == ([("a", 1)], True, False, False)
    assert (task.is_done, task.is_quiet) == (True, True)


def test_a_task_is_not_done_while_a_packet_is_on_its_way() -> None:
    made = Members(counting())
    made.rounds(6)
    before = [task.is_done for task in made.members]
    made.members[0].links.know({1: 2})  # another incarnation, which has to be told everything
    (packet,) = made.members[0].due()
    made.members[0].turn()
    on_its_way = made.members[0].is_done
    made.members[0].lost(packet)
    made.members[0].turn()

    assert (before, on_its_way, made.members[0].is_done) == ([True, True], False, True)


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
    before = made.members[1].activity
    made.members[1].follow(made.orders(1, loops_ended=3))
    made.members[1].follow(made.orders(1, loops_ended=4))

    assert made.members[1].activity == before + 1
