"""Which record goes next: by order, then rank; what is empty holds the others back until its bound has passed theirs."""

from __future__ import annotations

from typing import Any

import pytest
from raystreams.cluster.channels import END, START, Channel, Inputs
from raystreams.stores.values import NO_HEADERS


class Taken:
    """Inputs of some channels, and what was taken from them: `name` and timestamp."""

    def __init__(self, *names: str, disorder: int = 0, feedback: tuple[str, ...] = ()) -> None:
        self.rows: list[tuple[str, int]] = []
        self.ended: list[str] = []
        self.times: list[int] = []
        self.inputs = Inputs("inputs", lambda channel: self.ended.append(channel.name))
        self.channels = {name: self._channel(name, disorder, name in feedback) for name in names}
        self.inputs.add(self.channels.values(), lambda channel: names.index(channel.name))

    def _channel(self, name: str, disorder: int, feedback: bool) -> Channel:
        def process(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            self.rows.append((name, timestamp))

        return Channel(name, name, process, topic=name, disorder=disorder, feedback=feedback)

    def offer(self, name: str, *timestamps: int) -> None:
        count = len(timestamps)
        self.channels[name].offer([None] * count, [None] * count, timestamps, [NO_HEADERS] * count, range(count))

    def run(self, budget: int = 1000) -> list[tuple[str, int]]:
        self.rows.clear()
        self.inputs.run(budget, lambda channel: None, self.times.append)
        return list(self.rows)


def test_k1_order_is_the_largest_time_read_so_far() -> None:
    """PartitionGroupTest#testTimeTracking, with the tie of 5 and 5 by rank (a listed deviation)."""
    taken = Taken("1", "2")
    taken.offer("1", 1, 3, 5)
    taken.offer("2", 2, 4, 6)

    assert taken.run(2) == [("1", 1), ("2", 2)]
    taken.offer("1", 2, 4)
    taken.channels["1"].end()
    taken.channels["2"].end()
    assert taken.run() == [("1", 3), ("2", 4), ("1", 5), ("1", 2), ("1", 4), ("2", 6)]
    assert taken.times == [1, 2, 3, 4, 5, 5, 5, 6]


def test_k2_a_record_behind_the_head_is_not_looked_at() -> None:
    taken = Taken("1", "2")
    taken.inputs.patient = False
    taken.offer("1", 1, 5, 3)

    assert taken.run(2) == [("1", 1), ("1", 5)]
    taken.offer("2", 2, 4, 6)
    assert taken.run(2) == [("2", 2), ("2", 4)]


def test_an_empty_channel_holds_others_back_until_its_bound_has_passed_theirs() -> None:
    taken = Taken("1", "2")
    taken.offer("1", 1, 4, 8)
    assert taken.run() == []
    taken.offer("2", 5)

    assert taken.run() == [("1", 1), ("1", 4), ("2", 5)]
    taken.channels["2"].watermark(9)
    assert taken.run() == [("1", 8)]


def test_at_equal_orders_the_first_channel_goes_first_and_is_waited_for() -> None:
    taken = Taken("table", "stream")
    taken.offer("stream", 5)
    taken.offer("table", 5)

    assert taken.run() == [("table", 5)]
    taken.offer("table", 5, 6)
    assert taken.run() == [("table", 5), ("stream", 5)]


def test_a_channel_that_has_caught_up_holds_nobody_back_until_it_has_a_record() -> None:
    taken = Taken("1", "2")
    taken.offer("1", 1)
    taken.channels["2"].idle = True

    assert taken.run() == [("1", 1)]
    taken.offer("2", 3)
    taken.offer("1", 2)
    assert taken.run() == [("1", 2)]


def test_a_channel_that_feeds_back_never_holds_others_back() -> None:
    taken = Taken("1", "back", feedback=("back",))
    taken.offer("1", 7)

    assert taken.run() == [("1", 7)]
    assert taken.inputs.bound() == 7


def test_disorder_makes_others_wait_for_a_table_that_is_late() -> None:
    taken = Taken("table", "stream")
    taken.channels["table"].disorder = 5
    taken.offer("table", 10, 6)
    taken.offer("stream", 5)

    assert taken.run() == [("table", 10), ("table", 6)]
    taken.offer("table", 11)
    assert taken.run() == [("stream", 5)]


def test_an_end_is_taken_in_its_place_after_all_records() -> None:
    taken = Taken("1", "2")
    taken.offer("1", 1)
    taken.channels["1"].end()

    assert taken.run() == [] and taken.ended == []
    taken.channels["2"].end()
    assert taken.run() == [("1", 1)]
    assert taken.ended == ["1", "2"] and taken.inputs.bound() == END


def test_a_budget_ends_between_records() -> None:
    taken = Taken("1")
    taken.offer("1", *range(10))

    assert len(taken.run(3)) == 3
    assert len(taken.run(3)) == 3
    assert taken.channels["1"].position == 5


def test_two_inputs_take_turns() -> None:
    taken = Taken("1", "2")
    taken.offer("1", *range(0, 100, 2))
    taken.offer("2", *range(1, 100, 2))

    assert [time for _, time in taken.run()] == list(range(99))


def test_positions_are_looked_up_when_one_is_asked_for() -> None:
    taken = Taken("1")
    taken.offer("1", 5, 6)
    before = taken.channels["1"].position
    taken.run(1)
    first = taken.channels["1"].position
    taken.channels["1"].position = "set"

    assert (before, first, taken.channels["1"].position) == (None, 0, "set")


def test_only_what_feeds_back_is_taken_when_what_comes_after_is_full() -> None:
    taken = Taken("1", "back", feedback=("back",))
    taken.offer("1", 1)
    taken.offer("back", 9)
    taken.inputs.run(10, lambda channel: None, None, only_feedback=True)

    assert taken.rows == [("back", 9)]


def test_inputs_wait_until_global_tables_are_read() -> None:
    table, taken = Taken("table"), Taken("1")
    taken.inputs.waits_for = [table.inputs]
    taken.offer("1", 1)
    table.offer("table", 1)

    assert taken.run() == []
    table.run()
    assert taken.run() == []
    table.channels["table"].idle = True
    assert taken.run() == [("1", 1)]


@pytest.mark.parametrize(("bound", "time"), [(START, None), (4, None), (9, 9), (END, None)])
def test_time_passes_without_records_where_all_inputs_are_live_and_caught_up(bound: int, time: int | None) -> None:
    taken = Taken("1")
    taken.offer("1", 4)
    taken.run()
    assert taken.inputs.passed_time() is None
    taken.channels["1"].idle = True
    taken.channels["1"].watermark(bound)

    assert taken.inputs.passed_time() == time
