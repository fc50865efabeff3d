"""Edges: records are numbered, taken once and in order, kept until committed; runs are cut; self-edges stay in memory."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster import exchange
from raystreams.cluster.channels import END, START, Channel
from raystreams.cluster.exchange import EdgeState, IncomingEdge, LostCommitsError, OutgoingEdge, Run, SelfEdge, unsent
from raystreams.cluster.outbox import Outbox
from raystreams.stores.database import TaskDatabase
from raystreams.stores.serdes import key_serde, value_serde
from raystreams.stores.values import NO_HEADERS

KEY, VALUE = key_serde(str), value_serde(None)


def channel() -> Channel:
    return Channel("c", "node", lambda *record: None, topic="c", sender=1)


def outgoing(*values: Any, runs: list[Run] | None = None) -> OutgoingEdge:
    edge = OutgoingEdge("c", 1, KEY, VALUE, next=1, runs=runs or [])
    for order, value in enumerate(values):
        edge.add(order, "k", value, order, NO_HEADERS)
    return edge


def incoming(cursor: int = 1) -> IncomingEdge:
    return IncomingEdge(channel(), KEY, VALUE, cursor=cursor)


def values(edge: IncomingEdge | SelfEdge) -> list[Any]:
    return [entry[2] for entry in edge.channel.records]


def test_records_are_numbered_and_come_back_as_they_were() -> None:
    sender, receiver = outgoing(1), incoming()
    sender.add(5, None, None, 7, {"h": b"x"})
    (run,) = sender.draw()

    assert (run.first, run.count, run.next, run.order) == (1, 2, 3, 5)
    assert receiver.accept(run)
    assert list(receiver.channel.records) == [(0, "k", 1, 0, NO_HEADERS, 1), (5, None, None, 7, {"h": b"x"}, 2)]


def test_orders_on_an_edge_never_fall() -> None:
    sender = OutgoingEdge("c", 1, KEY, VALUE, next=1, runs=[])
    for order in (3, 1, 4):
        sender.add(order, "k", None, 0, NO_HEADERS)

    assert [entry[0] for entry in sender.fresh] == [3, 3, 4]


def test_a_repeat_is_left_out_a_gap_is_refused_and_an_overlap_is_cut() -> None:
    sender, receiver = outgoing("a", "b"), incoming()
    (first,) = sender.draw()
    sender.add(2, "k", "c", 2, NO_HEADERS)
    (second,) = sender.draw()

    assert not receiver.accept(second) and values(receiver) == []
    assert receiver.accept(first) and receiver.accept(first) and receiver.accept(second)
    assert values(receiver) == ["a", "b", "c"]
    later = incoming(cursor=2)
    assert later.accept(first) and values(later) == ["b"]


def test_runs_are_kept_until_they_are_committed_by_the_peer() -> None:
    sender = outgoing("a", "b")
    sender.draw()
    sender.add(2, "k", "c", 2, NO_HEADERS)
    sender.draw()

    assert sender.waiting == 3
    assert sender.acknowledge(2) == [] and sender.waiting == 2
    assert [run.first for run in sender.acknowledge(3)] == [1]
    assert sender.acknowledge(1) == [] and sender.waiting == 1
    assert [run.first for run in sender.acknowledge(4)] == [3] and sender.waiting == 0


def test_runs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RUN_BYTES", 100)
    runs = outgoing(*["x" * 30] * 10, "y" * 500).draw()
    receiver = incoming()
    for run in runs:
        assert receiver.accept(run)

    assert len(runs) > 3 and all(len(run.data) <= 100 or run.count == 1 for run in runs)
    assert values(receiver) == [*["x" * 30] * 10, "y" * 500]


def test_how_far_a_sender_is_counts_once_its_records_are_there() -> None:
    (run,) = outgoing("a").draw()
    receiver = incoming()
    receiver.advance(EdgeState(number=2, bound=9, idle=True, ended=True))
    assert (receiver.channel.bound, receiver.channel.idle, receiver.channel.ended) == (START, False, False)
    receiver.accept(run)
    receiver.advance(EdgeState(number=2, bound=9, idle=True))
    receiver.advance(EdgeState(number=1, bound=4, idle=False))

    assert (receiver.channel.bound, receiver.channel.idle) == (9, True)
    receiver.advance(EdgeState(number=2, bound=END, ended=True))
    assert receiver.channel.ended


def test_new_records_end_idleness() -> None:
    receiver = incoming()
    receiver.advance(EdgeState(number=1, bound=3, idle=True))
    receiver.accept(outgoing("a").draw()[0])

    assert not receiver.channel.idle


def test_the_outbox_gives_back_what_was_committed() -> None:
    database = TaskDatabase.open(None, {})
    outbox, sender = Outbox(database), outgoing("a", "b")
    runs = sender.draw()
    outbox.keep(1, runs)
    database.commit()
    opened = Outbox(database)
    kept = opened.runs("c", 1)
    again = outgoing(runs=kept)

    assert kept == runs and opened.runs("c", 2) == [] and opened.runs("d", 1) == []
    assert (again.unacknowledged, again.acknowledged) == (2, 1)
    opened.forget(1, runs)
    assert Outbox(database).runs("c", 1) == []


def test_who_has_lost_commits_is_named() -> None:
    outbox, sender = Outbox(TaskDatabase.open(None, {})), outgoing("a", "b")
    sender.draw()
    assert len(list(unsent({"c": sender}, {}, 64, 1 << 62))) == 1
    with pytest.raises(LostCommitsError, match="it has sent up to 2, its peer has 3"):
        outbox.check(0, sender, 4, connecting=False)
    sender.acknowledge(3)

    outbox.check(0, sender, 2, connecting=False)  # a message that came late
    with pytest.raises(LostCommitsError, match="task 1 has lost commits"):
        outbox.check(0, sender, 2, connecting=True)


def test_a_peer_can_not_have_what_has_not_left() -> None:
    # A sender that fell back gives numbers again that its peer had for other records.
    outbox, sender = Outbox(TaskDatabase.open(None, {})), outgoing("a", "b")
    sender.draw()

    with pytest.raises(LostCommitsError, match="it has sent up to 0, its peer has 2"):
        outbox.check(0, sender, 3, connecting=True)


def self_edge(cursor: int = 1, number: int = 1) -> SelfEdge:
    edge = SelfEdge(channel(), KEY, VALUE, next=number)
    edge.restore([], cursor)
    return edge


def take(edge: SelfEdge, count: int) -> None:
    for _ in range(count):
        edge.channel.place = edge.channel.records.popleft()[5]


def test_a_self_edge_writes_only_what_waits_and_only_once() -> None:
    edge = self_edge()
    for value in "abc":
        edge.add(0, "k", value, 0, NO_HEADERS)
    take(edge, 1)
    done, row = edge.draw()
    assert done == [] and row is not None and row[0] == 2
    assert edge.draw() == ([], None)
    edge.add(0, "k", "d", 0, NO_HEADERS)
    take(edge, 2)
    done, second = edge.draw()

    assert done == [(2, 4)] and second is not None and second[0] == 4
    take(edge, 1)
    assert edge.draw() == ([(4, 5)], None)


def test_a_self_edge_takes_back_what_waited() -> None:
    edge = self_edge()
    for value in "abc":
        edge.add(0, "k", value, 0, NO_HEADERS)
    _, row = edge.draw()
    assert row is not None
    again = SelfEdge(channel(), KEY, VALUE, next=4)
    again.restore([row], cursor=3)

    assert values(again) == ["c"] and again.channel.position == 2
    take(again, 1)
    assert again.draw() == ([(1, 4)], None)
