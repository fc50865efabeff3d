"""Joins of two streams against the definition: all pairs of records in order; the list, for any order and any crashes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import Record, TopologyTestDriver
from tests.operators.stream_joins import joined

RECORDS = st.lists(st.tuples(st.sampled_from("LR"), st.sampled_from("kj"), st.integers(0, 40)), max_size=25)
WINDOWS = st.tuples(st.integers(-3, 12), st.integers(-3, 12), st.integers(0, 15)).filter(
    lambda windows: windows[0] + windows[1] >= 0 and sum(windows) > 0
)


@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
@given(records=RECORDS, windows=WINDOWS)
@settings(max_examples=30, deadline=None)
def test_records_that_are_never_late_meet_once_each(
    method: str, records: list[tuple[str, str, int]], windows: tuple[int, int, int]
) -> None:
    """With records in the order of time every pair in the window comes out once, and every other record once without."""
    before, after, grace = windows
    records = sorted(records, key=lambda r: r[2])
    grace += 1  # without grace a one-sided window forgets a record as its last match comes
    with TopologyTestDriver(joined(method, before=before, after=after, grace=grace, joiner=lambda a, b: (a, b))) as driver:
        for number, (topic, key, timestamp) in enumerate(records):
            driver.input_topic(topic).send(number, key=key, timestamp=timestamp)
        driver.end_of_input()
        out = driver.output_topic("out").read_all()

    assert sorted(out, key=repr) == sorted(matching(method, records, before, after), key=repr)


def matching(method: str, records: list[tuple[str, str, int]], before: int, after: int) -> list[Record[Any, Any]]:
    sides = {side: [(n, k, t) for n, (topic, k, t) in enumerate(records) if topic == side] for side in "LR"}
    pairs = [
        (left, right)
        for left in sides["L"]
        for right in sides["R"]
        if left[1] == right[1] and left[2] - before <= right[2] <= left[2] + after
    ]
    found: list[Record[Any, Any]] = [Record(a[1], (a[0], b[0]), max(a[2], b[2])) for a, b in pairs]
    if method != "join":
        found += [Record(k, (n, None), t) for n, k, t in sides["L"] if n not in {a[0] for a, _ in pairs}]
    if method == "outer_join":
        found += [Record(k, (None, n), t) for n, k, t in sides["R"] if n not in {b[0] for _, b in pairs}]
    return found


@pytest.mark.parametrize("method", ["left_join", "outer_join"])
@given(records=RECORDS, windows=WINDOWS, crashes=st.sets(st.integers(0, 24)))
@settings(max_examples=30, deadline=None)
def test_any_order_and_any_crashes_give_the_definitions_list(
    method: str, records: list[tuple[str, str, int]], windows: tuple[int, int, int], crashes: set[int]
) -> None:
    before, after, grace = windows
    topology = joined(method, before=before, after=after, grace=grace, joiner=lambda a, b: (a, b))
    with TopologyTestDriver(topology, auto_commit=False) as driver:
        for number, (topic, key, timestamp) in enumerate(records):
            driver.input_topic(topic).send(number, key=key, timestamp=timestamp)
            if number in crashes:
                driver.crash()
            if number % 3 == 0:
                driver.commit()
        driver.end_of_input()
        driver.commit()
        out = driver.output_topic("out").read_all()

    assert out == Model(method, before, after, grace).run(records)


class Model:
    """The join as spec-joins 7 says it, over plain lists."""

    def __init__(self, method: str, before: int, after: int, grace: int) -> None:
        self.kept_for = max(before + after, before, after) + grace
        self.ahead, self.back = {"L": after, "R": before}, {"L": before, "R": after}
        self.grace = grace
        self.preserved = "LR" if method == "outer_join" else "L"
        self.windows: dict[str, list[tuple[int, int, str]]] = {"L": [], "R": []}
        self.observed = {"L": -1, "R": -1}
        self.unmatched: list[tuple[int, str, str, int]] = []  # time, side, key, number
        self.now = -1
        self.out: list[Record[Any, Any]] = []

    def run(self, records: list[tuple[str, str, int]]) -> list[Record[Any, Any]]:
        for number, (side, key, time) in enumerate(records):
            self.process(number, side, key, time)
        self.flush(10**9)
        return self.out

    def process(self, number: int, side: str, key: str, time: int) -> None:
        other = "R" if side == "L" else "L"
        self.now = max(self.now, time)
        if time == self.now:
            self.flush(self.now)
        live = self.observed[other] - self.kept_for
        hits = sorted(
            (t, n) for t, n, k in self.windows[other]
            if k == key and t > live and time - self.back[side] <= t <= time + self.ahead[side]
        )  # fmt: skip
        for t, n in hits:
            self.unmatched = [u for u in self.unmatched if u[:3] != (t, other, key)]
            self.out.append(Record(key, (number, n) if side == "L" else (n, number), max(t, time)))
        if not hits and side in self.preserved:
            if time + self.ahead[side] + self.grace < self.now:
                self.alone(number, side, key, time)
            else:
                self.unmatched.append((time, side, key, number))
        self.observed[side] = max(self.observed[side], time)
        if time > self.observed[side] - self.kept_for:
            self.windows[side].append((time, number, key))

    def flush(self, now: int) -> None:
        closed = [u for u in self.unmatched if u[0] + self.ahead[u[1]] + self.grace < now]
        self.unmatched = [u for u in self.unmatched if u not in closed]
        for time, side, key, number in sorted(closed, key=lambda u: (u[0], u[1] == "L", u[2], u[3])):
            self.alone(number, side, key, time)

    def alone(self, number: int, side: str, key: str, time: int) -> None:
        self.out.append(Record(key, (number, None) if side == "L" else (None, number), time))
