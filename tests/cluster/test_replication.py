"""A task and its standbys, request by request: when they meet, when a copy is needed, and when the task has to wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raystreams.cluster import replication
from raystreams.cluster.replication import Replicate, Replicated
from raystreams.cluster.rows import lineage_of

from tests.cluster.copies import Copies, followed, in_the_middle_of_a_copy, place_of, rows_of

PLACES = pytest.mark.parametrize("kind", ["memory", "folder"])


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is a part of its own."""
    monkeypatch.setattr(replication, "PART_BYTES", 1)


def test_a_new_task_and_a_new_standby_meet_and_the_standby_follows() -> None:
    copies = Copies()
    standby = copies.add()
    met = copies.settle()
    copies.commit({"a": "1"})
    copies.commit({"b": "2", "a": None})
    asked = copies.due()
    copies.answer(asked)

    assert met == ["meet"]
    assert (asked.what, [number for number, _ in asked.commits]) == ("follow", [1, 2])
    assert standby.lineage == (1, 2)
    assert rows_of(standby.database) == rows_of(copies.database)


@PLACES
def test_a_standby_that_is_as_far_as_a_new_incarnation_follows_it_without_a_copy(kind: str, tmp_path: Path) -> None:
    copies = Copies()
    copies.add(place=place_of(kind, tmp_path))
    copies.commit({"a": "1"})
    copies.settle()
    copies.start()
    copies.reopen()

    assert copies.settle() == ["meet"]
    copies.commit({"c": "3"})
    assert copies.settle() == ["follow"]
    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


@PLACES
def test_a_standby_that_is_behind_is_copied_to(kind: str, tmp_path: Path) -> None:
    copies = Copies()
    copies.commit({"a": "1"})
    standby = copies.add(place=place_of(kind, tmp_path))
    asked = copies.settle()

    assert asked == ["meet", "copy", "copy"]
    assert standby.lineage == (1, 1)
    assert rows_of(standby.database) == rows_of(copies.database)
    assert copies.replication.phases() == {"s": ("in sync", 0)}


def test_a_copy_says_which_of_its_parts_is_the_first_and_which_the_last(small_parts: None) -> None:
    copies = Copies()
    copies.commit({"a": "1", "b": "2"})
    copies.add()
    copies.answer(copies.due())
    parts = []
    while due := copies.replication.due():
        parts.append((due[0][1].first, due[0][1].last, len(due[0][1].rows)))
        copies.answer(due[0][1])

    rows = len(rows_of(copies.database))
    assert parts == [(True, False, 1)] + [(False, False, 1)] * (rows - 1) + [(False, True, 0)]


def test_what_is_committed_during_a_copy_is_followed_after_it(small_parts: None) -> None:
    copies = in_the_middle_of_a_copy()
    copies.commit({"a": None, "d": "4"})
    copies.commit({"e": "5"})
    asked = copies.settle()

    assert asked[-3:] == ["copy", "follow", "follow"] and set(asked[:-2]) == {"copy"}
    assert copies.standbys["s"].lineage == (1, 3)
    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


def test_what_is_committed_while_they_meet_is_followed_after_that() -> None:
    copies = Copies()
    copies.add()
    asked = copies.due()
    copies.commit({"a": "1"})
    copies.answer(asked)

    assert copies.settle() == ["follow"]
    assert copies.standbys["s"].lineage == (1, 1)


def test_a_standby_that_is_one_commit_ahead_is_copied_to() -> None:
    """The commit that the task had written last was lost with its machine; its standby had it on disk."""
    copies = followed()
    ahead = copies.standbys["s"].handle(Replicate(epoch=1, what="follow", commits=[(2, [(b"zz", b"zz")])]))
    copies.start()
    asked = copies.settle()

    assert ahead == Replicated((1, 2))
    assert asked == ["meet", "copy", "copy"]
    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


def test_the_same_number_under_another_epoch_is_another_commit() -> None:
    copies = followed()
    copies.standbys["s"].handle(Replicate(epoch=1, what="follow", commits=[(2, [(b"zz", b"zz")])]))
    copies.start()
    copies.commit({"b": "2"})

    assert (lineage_of(copies.database), copies.standbys["s"].lineage) == ((2, 2), (1, 2))
    assert copies.settle() == ["meet", "copy", "copy"]


# ---- whom the task waits for


def test_a_standby_that_is_behind_is_not_waited_for_and_one_that_has_caught_up_is(small_parts: None) -> None:
    copies = in_the_middle_of_a_copy()
    copies.commit({"d": "4"})
    while_copying = (copies.replication.settled, copies.replication.phases())
    copies.settle()
    caught_up = (copies.replication.settled, copies.replication.phases())
    copies.commit({"e": "5"})

    assert while_copying == (True, {"s": ("behind", 0)})
    assert caught_up == (True, {"s": ("in sync", 0)})
    assert not copies.replication.settled
    copies.settle()
    assert copies.replication.settled


def test_a_new_incarnation_waits_for_a_standby_that_is_in_sync_until_they_have_met() -> None:
    copies = followed()
    copies.start()
    before = copies.replication.settled
    copies.settle()

    assert (before, copies.replication.settled) == (False, True)


def test_all_standbys_must_have_a_commit() -> None:
    copies = followed()
    copies.add("t")
    copies.settle()
    copies.commit({"b": "2"})
    (first, second) = copies.replication.due()
    copies.answer(first[1], first[0])
    one = copies.replication.settled
    copies.answer(second[1], second[0])

    assert (first[0], second[0], one, copies.replication.settled) == ("s", "t", False, True)


def test_a_lost_standby_is_waited_for_until_orders_that_know_of_the_loss_let_go_of_it() -> None:
    copies = followed()
    copies.commit({"b": "2"})
    copies.replication.lost("s", copies.due())
    seen = [(copies.replication.settled, copies.replication.phases())]
    for written in [(True, 0), (False, 0), (True, 1), (False, 1)]:
        copies.replication.follow({"s": written})
        seen.append((copies.replication.settled, copies.replication.phases()))

    assert seen == [(False, {"s": ("lost", 1)})] * 4 + [(True, {"s": ("behind", 1)})]


def test_a_lost_standby_is_asked_nothing_and_then_met_again() -> None:
    copies = followed()
    copies.commit({"b": "2"})
    copies.replication.lost("s", copies.due())
    meanwhile = copies.replication.due()
    copies.commit({"c": "3"})
    copies.write_orders()

    assert meanwhile == []
    assert copies.settle() == ["meet", "copy", "copy"]
    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


def test_a_standby_that_had_taken_what_was_thought_lost_needs_no_copy() -> None:
    copies = followed()
    copies.commit({"b": "2"})
    asked = copies.due()
    copies.standbys["s"].handle(asked)
    copies.replication.lost("s", asked)
    copies.write_orders()

    assert copies.settle() == ["meet"]


def test_one_that_nobody_waits_for_is_met_again_without_orders(small_parts: None) -> None:
    copies = in_the_middle_of_a_copy()
    copies.replication.lost("s", copies.due())

    assert copies.replication.phases() == {"s": ("behind", 1)}
    assert copies.settle()[0] == "meet"
    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)


def test_an_answer_that_comes_after_the_loss_counts_for_nothing() -> None:
    copies = followed()
    copies.commit({"b": "2"})
    asked = copies.due()
    copies.replication.lost("s", asked)

    assert copies.replication.answered("s", asked, copies.standbys["s"].handle(asked))
    copies.replication.lost("s", asked)
    assert copies.replication.phases() == {"s": ("lost", 1)}
    assert not copies.replication.answered("s", asked, Replicated(fenced=True))


def test_the_answer_to_an_earlier_request_is_not_taken_for_that_to_the_last_one() -> None:
    copies = Copies()
    copies.commit({"a": "1"})
    copies.add()
    first = copies.due()
    copies.replication.lost("s", first)
    second = copies.due()
    copies.replication.answered("s", first, Replicated((1, 1)))

    assert copies.replication.phases() == {"s": ("behind", 1)} and copies.replication.due() == []
    copies.replication.answered("s", second, Replicated((1, 1)))
    assert copies.replication.phases() == {"s": ("in sync", 1)}


def test_losses_are_counted_on_from_those_that_orders_know() -> None:
    copies = followed()
    copies.written["s"] = (True, 3)
    copies.start()
    copies.settle()
    copies.commit({"b": "2"})
    copies.replication.lost("s", copies.due())

    assert copies.replication.phases() == {"s": ("lost", 4)}


def test_a_standby_that_does_not_say_it_has_the_commits_is_lost() -> None:
    copies = followed()
    copies.commit({"b": "2"})
    copies.replication.answered("s", copies.due(), Replicated((1, 1)))

    assert copies.replication.phases() == {"s": ("lost", 1)}


def test_a_standby_that_orders_do_not_name_is_not_waited_for() -> None:
    copies = followed()
    copies.commit({"b": "2"})
    asked = copies.due()
    copies.replication.follow({})

    assert copies.replication.settled
    assert copies.replication.answered("s", asked, Replicated((1, 2)))


def test_a_copy_that_is_not_needed_any_more_is_closed(small_parts: None) -> None:
    class Counted:
        def __init__(self) -> None:
            self.open = 0

        def part(self, most_bytes: int) -> list[tuple[bytes, bytes | None]]:
            return [(b"k", b"v")]

        def close(self) -> None:
            self.open -= 1

    counted = Counted()

    def rows() -> Counted:
        counted.open += 1
        return counted

    seen = []
    for end in ("lost", "gone", "closed"):
        task = replication.Replication(1, (1, 1), rows)  # type: ignore[arg-type]  # what it asks of rows
        task.follow({"s": (False, 0)})
        task.answered("s", task.due()[0][1], Replicated((0, 0)))
        ((_, part),) = task.due()
        seen.append(counted.open)
        if end == "lost":
            task.lost("s", part)
        elif end == "gone":
            task.follow({})
        else:
            task.close()
        seen.append(counted.open)

    assert seen == [1, 0] * 3


def test_the_task_waits_when_too_much_waits_for_the_end_of_a_copy(
    small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "WAITING_BYTES", 400)
    copies = in_the_middle_of_a_copy()
    copies.commit({"x": "x" * 250})
    little = copies.replication.settled
    copies.commit({"y": "y" * 250})
    much = copies.replication.settled
    copies.settle()

    assert (little, much, copies.replication.settled) == (True, False, True)


# ---- whatever happens

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from("abc"), st.sampled_from(["1", "2", None])),
        st.tuples(
            st.sampled_from(["ask", "ask", "ask", "lose", "lose answer", "reopen", "start", "orders"]), st.just(""), st.none()
        ),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_in_the_end_rows_are_equal_and_what_may_leave_is_never_more_than_what_standbys_in_sync_have(
    steps: list[tuple[str, str, str | None]],
) -> None:
    before, replication.PART_BYTES = replication.PART_BYTES, 1
    try:
        copies = Copies()
        copies.add()
        for what, key, value in steps:
            _step(copies, what, key, value)
            if copies.replication.settled and copies.written["s"][0]:
                assert copies.standbys["s"].lineage == lineage_of(copies.database)
        copies.write_orders()
        copies.settle()
        copies.write_orders()
        copies.settle()
    finally:
        replication.PART_BYTES = before

    assert rows_of(copies.standbys["s"].database) == rows_of(copies.database)
    assert copies.replication.phases()["s"][0] == "in sync" and copies.replication.settled


def _step(copies: Copies, what: str, key: str, value: str | None) -> None:
    if what == "commit" and copies.replication.settled:
        copies.commit({key: value})
    elif what == "reopen":
        copies.reopen()
    elif what == "start":
        copies.start()
    elif what == "orders":
        copies.write_orders()
    for name, asked in copies.replication.due() if what in ("ask", "lose", "lose answer") else ():
        if what == "ask":
            copies.answer(asked)
            continue
        if what == "lose answer":
            copies.standbys[name].handle(asked)
        copies.replication.lost(name, asked)
