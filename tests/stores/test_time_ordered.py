"""Buffers give back in the order of time, whatever comes in between; with so little read ahead that they have to read again."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from raystreams.stores.builders import outer_join_buffer, suppress_buffer, time_ordered_buffer

from tests.stores.conftest import MakeHome
from tests.stores.homes import Home

KEYS = [b"", b"a", b"a\0", b"ab", b"\xff"]


@pytest.fixture(autouse=True, params=[256, 3])
def read_ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raystreams.stores.time_ordered._AHEAD", request.param)


def chances(home: Home, steps: int) -> Iterator[tuple[int, float, int, bytes]]:
    """Yield `(step, chance, time, key)`, times about now; commit and restart now and then."""
    dice = random.Random(steps)
    for step in range(steps):
        if step % 97 == 96:
            home.restart()
        elif step % 23 == 22:
            home.commit()
        yield step, dice.random(), dice.randint(0, 30) + step // 20, dice.choice(KEYS)


def test_a_buffer_gives_back_by_time_key_and_arrival(home: MakeHome) -> None:
    made = home(time_ordered_buffer("b"))
    model: list[tuple[int, bytes, int]] = []
    for step, chance, time, key in chances(made, 800):
        buffer = made.store
        if chance < 0.8:
            buffer.put(time, key, b"%d" % step)
            model.append((time, key, step))
        else:
            due = sorted(row for row in model if row[0] <= step // 20)
            assert [(at, of, int(payload)) for at, of, payload in buffer.evict(step // 20)] == due
            model = [row for row in model if row[0] > step // 20]
        assert buffer.min_time == min((row[0] for row in model), default=None)
        assert buffer.count == len(model)
    assert [(at, of, int(payload)) for at, of, payload in made.store.scan()] == sorted(model)


def test_what_is_put_during_an_eviction_and_is_due_comes_too(home: MakeHome) -> None:
    buffer = home(time_ordered_buffer("b")).store
    buffer.put(1, b"k", b"first")
    came = []
    for _, _, payload in buffer.evict(5):
        came.append(payload)
        if payload == b"first":
            buffer.put(2, b"k", b"second")
            buffer.put(6, b"k", b"later")

    assert came == [b"first", b"second"]
    assert buffer.min_time == 6


def test_an_eviction_that_is_left_early_has_taken_only_what_it_gave(home: MakeHome) -> None:
    made = home(time_ordered_buffer("b"))
    for time in (1, 2, 3):
        made.store.put(time, b"k", b"%d" % time)
    assert next(made.store.evict(9))[2] == b"1"
    made.restart()

    assert [payload for _, _, payload in made.store.evict(9)] == [b"2", b"3"]


def test_a_suppressed_key_keeps_the_time_at_which_it_came_in(home: MakeHome) -> None:
    made = home(suppress_buffer("s"))
    model: dict[bytes, tuple[int, bytes]] = {}
    for step, chance, time, key in chances(made, 800):
        buffer = made.store
        key += b"%d" % (step % 7)
        if chance < 0.8:
            buffer.put(key, time, b"%d" % step)
            model[key] = (model.get(key, (time, b""))[0], b"%d" % step)
            assert buffer.get(key) == model[key]
        elif chance < 0.9:
            due = sorted((at, of, payload) for of, (at, payload) in model.items() if at <= step // 20)
            assert list(buffer.evict(step // 20)) == due
            for _, of, _ in due:
                del model[of]
        else:
            oldest = min(((at, of, payload) for of, (at, payload) in model.items()), default=None)
            assert buffer.pop_oldest() == oldest
            if oldest:
                del model[oldest[1]]
        assert buffer.min_time == min((at for at, _ in model.values()), default=None)
        assert buffer.count == len(model)
        assert buffer.size_bytes == sum(8 + len(of) + len(payload) for of, (_, payload) in model.items())


def test_records_that_met_no_other_come_by_time_side_key_and_arrival(home: MakeHome) -> None:
    made = home(outer_join_buffer("o"))
    model: list[tuple[int, int, bytes, int]] = []
    for step, chance, time, key in chances(made, 800):
        buffer = made.store
        if chance < 0.7:
            buffer.put(time, step % 2, key, b"%d" % step)
            model.append((time, step % 2, key, step))
        elif chance < 0.9 and model:
            cell = model[int(chance * 1_000) % len(model)][:3]
            assert buffer.delete_cell(*cell)
            assert not buffer.delete_cell(*cell)
            model = [row for row in model if row[:3] != cell]
        else:
            walked = []
            for *cell, payload in buffer.walk():
                walked.append((*cell, int(payload)))
                if cell[0] < step // 20:
                    buffer.delete_cell(*cell)
            assert walked == sorted(model)
            model = [row for row in model if row[0] >= step // 20]
        for side in (0, 1):
            assert buffer.min_time(side) == min((row[0] for row in model if row[1] == side), default=None)


def test_a_list_of_duplicates_is_a_list(home: MakeHome) -> None:  # K27, K28
    made = home(outer_join_buffer("o"))
    for key, payload in [(b"0", b"zero"), (b"0", b"zero again"), (b"1", b"one"), (b"2", b"")]:
        made.store.put(5, 0, key, payload)
    made.restart()
    rows = made.store.walk()

    assert [next(rows)[3]] == [b"zero"]
    made.store.delete_cell(5, 0, b"0")
    assert [row[3] for row in rows] == [b"zero again", b"one", b""]
    assert [row[2:] for row in made.store.walk()] == [(b"1", b"one"), (b"2", b"")]


def test_times_may_be_negative(home: MakeHome) -> None:
    buffer = home(time_ordered_buffer("b")).store
    for time in (3, -5, 0):
        buffer.put(time, b"k", b"")

    assert buffer.min_time == -5
    assert [time for time, _, _ in buffer.evict(0)] == [-5, 0]
