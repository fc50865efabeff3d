"""Vectors V of the specification of stores: one line a run on an empty store, read as it stands in the specification.

`put t:value -> r` (~ is a tombstone, K the key, default k); `g` latest; `a(t)` as of; `del(t)`; `m(from,to,asc|desc)` history.
Times are sums over I = 100,000 and R = 300,000. Answers: `value@from..to`, nothing after the dots while it is open.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from raystreams.stores.builders import Stores
from raystreams.stores.values import PUT_LATEST, PUT_REFUSED, VersionedRecord

from tests.stores.conftest import MakeHome
from tests.stores.homes import listed

INTERVAL, RETENTION = 100_000, 300_000

VECTORS = {
    "VK01": "put 10:v -> -1; put 11:v2 -> -1; g = v2@11; a(10) = v@10..11; a(11) = v2@11..; a(12) = v2@11..",
    "VK02": "put 10:~ -> -1; put 11:~ -> -1; g = null; a(10) = null; a(11) = null; a(12) = null",
    "VK03": "put 10:v -> -1; put 8:v2 -> 10; put 9:v1 -> 10; put 6:v4 -> 8; g = v@10; a(10) = v@10..; a(9) = v1@9..10;"
    "a(8) = v2@8..9; a(7) = v4@6..8",
    "VK04": "put 10:~ -> -1; put 8:v2 -> 10; put 9:v1 -> 10; put 6:v4 -> 8; g = null; a(10) = null; a(9) = v1@9..10;"
    "a(8) = v2@8..9; a(7) = v4@6..8",
    "VK05": "put 10:v -> -1; put 8:~ -> 10; put 9:~ -> 10; put 6:~ -> 8; put 5:v5 -> 6; put 7:v3 -> 8; put 4:~ -> 5; g = v@10;"
    "a(9) = null; a(8) = null; a(7) = v3@7..8; a(6) = null; a(5) = v5@5..6; a(4) = null",
    "VK06": "put 10:~ -> -1; put 8:~ -> 10; put 9:~ -> 10; put 6:~ -> 8; put 7:v3 -> 8; put 5:v5 -> 6; put 4:~ -> 5; g = null;"
    "a(10) = null; a(9) = null; a(8) = null; a(7) = v3@7..8; a(6) = null; a(5) = v5@5..6; a(4) = null",
    "VK07": "put 10:x -> -1; put 10:b -> -1; g = b@10; a(9) = null; put 10:~ -> -1; g = null; a(10) = null; put 10:~ -> -1;"
    "g = null;"
    "put 10:b -> -1; g = b@10; a(10) = b@10..; a(9) = null",
    "VK08": "put I+20:x -> -1; put I-10:~ -> I+20; put I-10:x -> I+20; put I-10:~ -> I+20; put I-1:x -> I+20;"
    "put I+1:x -> I+20;"
    "put I-1:~ -> I+1; put I+1:~ -> I+20; put I+10:~ -> I+20; put I+5:~ -> I+10; put I+5:vp5 -> I+10; put I-5:x -> I-1;"
    "put I-5:vn5 -> I-1; put I+20:~ -> -1; put I+20:~ -> -1; put I-6:vn6 -> I-5; g = null; a(I+30) = null; a(I+15) = null;"
    "a(I+6) = vp5@I+5..I+10; a(I+2) = null; a(I) = null; a(I-1) = null; a(I-5) = vn5@I-5..I-1; a(I-6) = vn6@I-6..I-5;"
    "a(I-8) = null",
    "VK09": "put I-20:~ -> -1; put I-10:vn10 -> -1; put I-1:~ -> -1; put I+1:~ -> -1; put I+10:vp10 -> -1; put I+20:~ -> -1;"
    "g = null;"
    "a(I+15) = vp10@I+10..I+20; a(I+5) = null; a(I) = null; a(I-1) = null; a(I-5) = vn10@I-10..I-1; a(I-15) = null",
    "VK10": "put I+20:vp20 -> -1; put I+10:vp10 -> I+20; put I-10:vn10 -> I+10; put I-2:vn2 -> I+10; put I-1:vn1 -> I+10;"
    "put I+1:vp1 -> I+10; g = vp20@I+20; a(I+15) = vp10@I+10..I+20; a(I+5) = vp1@I+1..I+10; a(I) = vn1@I-1..I+1;"
    "a(I-2) = vn2@I-2..I-1; a(I-5) = vn10@I-10..I-2",
    "VK11": "put I-5:~ -> -1; put I-6:vn6 -> I-5; put I+20:vp20 -> -1; put I+10:~ -> I+20; put I-1:~ -> I+10;"
    "put I-2:vn2 -> I-1;"
    "a(I+12) = null; a(I) = null; a(I-2) = vn2@I-2..I-1; a(I-5) = null; a(I-6) = vn6@I-6..I-5",
    "VK12": "put I+30:vp30 -> -1; put I-10:~ -> I+30; put I-5:vn5 -> I+30; put I-1:vn1 -> I+30; put I-2:~ -> I-1;"
    "g = vp30@I+30;"
    "a(I+10) = vn1@I-1..I+30; a(I-2) = null; a(I-5) = vn5@I-5..I-2; a(I-10) = null",
    "VK13": "put I+20:vp20 -> -1; put I+10:vp10 -> I+20; put I-10:vn10 -> I+10; put I-2:vn2 -> I+10; del(I-5) = vn10@I-10;"
    "del(I+10) = vp10@I+10; del(I+10) = null; del(I+25) = vp20@I+20",
    "VK14": "k put R+10:v -> -1; k1 put 10:v1 -> -1; k1 g = v1@10; k2 put 9:v2 -> MIN; k2 g = null",
    "VK15": "k1 put 1:v1 -> -1; k2 put 1:v2 -> -1; o put R+10:x -> -1; k1 del(10) = v1@1; k1 g = null; k2 del(9) = null;"
    "k2 g = v2@1",
    "VK16": "ko put I-10:~ -> -1; ko put 2I-10:~ -> -1; ko put R-10:~ -> -1; a(I-20) = null; put I-20:v -> -1;"
    "put I-10:~ -> -1;"
    "a(I-30) = null; a(I-15) = v@I-20..I-10; a(I-5) = null; put R-20:v2 -> -1; put R-10:~ -> -1; a(I-30) = null;"
    "a(I-15) = v@I-20..I-10; a(I-5) = null",
    "VK17": "put 0:old -> -1; put I-10:v -> -1; a(I-11) = old@0..I-10; ko put R+I-11:x -> -1; a(I-11) = old@0..I-10;"
    "ko put R+I-10:y -> -1; a(I-11) = null",
    "VK18": "put 1:v -> -1; ko put 1:o -> -1; ko put R+12:n -> -1; a(10) = v@1..; ko a(10) = null",
    "VK19": "put I+20:~ -> -1; put I-10:~ -> I+20; put I-1:~ -> I+20; put I+1:~ -> I+20; put I+10:~ -> I+20; put I+5: -> I+10;"
    "put I-5: -> I-1; put I-6: -> I-5; a(I+6) = @I+5..I+10; a(I+2) = null; a(I-5) = @I-5..I-1; a(I-6) = @I-6..I-5;"
    "a(I-8) = null",
    "VM01": "put I-30:v1 -> -1; put I-25:v2 -> -1; put I-20:~ -> -1; put I-15:~ -> -1; put I-10:v3 -> -1; put I-5:v4 -> -1;"
    "m(I-40,I-35,desc) = []; m(I-30,I-5,desc) = [v4@I-5.. v3@I-10..I-5 v2@I-25..I-20 v1@I-30..I-25];"
    "m(MIN,MAX,desc) = [v4@I-5.. v3@I-10..I-5 v2@I-25..I-20 v1@I-30..I-25]; m(I-4,I,desc) = [v4@I-5..];"
    "m(I-5,I-5,desc) = [v4@I-5..];"
    "m(I-4,I-4,desc) = [v4@I-5..]; m(I-31,I-21,desc) = [v2@I-25..I-20 v1@I-30..I-25]; m(I-24,I-11,desc) = [v2@I-25..I-20];"
    "m(I-11,I-4,desc) = [v4@I-5.. v3@I-10..I-5]; m(I-26,I-5,desc) = [v4@I-5.. v3@I-10..I-5 v2@I-25..I-20 v1@I-30..I-25];"
    "m(I-15,I-10,desc) = [v3@I-10..I-5]; m(I-19,I-16,desc) = []",
    "VM02": "put I-30:v1 -> -1; put I-25:v2 -> -1; put I-10:v3 -> -1; put I-5:v4 -> -1;"
    "m(I-30,I-5,asc) = [v1@I-30..I-25 v2@I-25..I-10 v3@I-10..I-5 v4@I-5..]",
    "VM03": "put I-10:v1 -> -1; put I-5:v2 -> -1; put 2I-10:v3 -> -1; put 2I-5:v4 -> -1;"
    "m(MIN,MAX,asc) = [v1@I-10..I-5 v2@I-5..2I-10 v3@2I-10..2I-5 v4@2I-5..]",
    "VM04": "put 0:old -> -1; put I-10:v -> -1; m(0,I-11,desc) = [old@0..I-10]; ko put R+I-11:x -> -1;"
    "m(0,I-11,desc) = [old@0..I-10];"
    "ko put R+I-10:y -> -1; m(0,I-11,desc) = []",
    # Kafka gives nothing for ko, as the range is past the retention; but o was valid until now (golden store_versioned-dev-2).
    "VM05": "put 1:v -> -1; ko put 1:o -> -1; ko put R+12:n -> -1; m(0,10,desc) = [v@1..]; ko m(0,10,desc) = [o@1..R+12]",
    "VR1 as puts": "put R+10:v -> -1; k1 put 10:v1 -> -1; k2 put 9:v2 -> MIN; g = v@R+10; k1 g = v1@10; k2 g = null",
    "VR2 as puts": "k2 put 0:v2 -> -1; put R+10:v -> -1; k2 g = v2@0; g = v@R+10",
    "VA1": "put 20:b -> -1; put 20:~ -> -1; put 10:a -> 20; g = null; a(15) = a@10..20",
    "VD1": "put 0:v0 -> -1; put 7:v1 -> -1; m(0,3,desc) = [v0@0..7]",
    "VD3": "put 0:a -> -1; put 10:b -> -1; ko put R+11:x -> -1; m(MIN,MAX,asc) = [b@10..]",
}
ZERO_RETENTION = (  # VK20
    "put 10:v -> -1; g = v@10; a(11) = v@10..; put 10:u -> -1; g = u@10; put 12:v2 -> -1; a(12) = v2@12..; a(11) = null;"
    "del(13) = v2@12; g = null; k2 put 12:v -> MIN; k2 g = null"
)


def moment(text: str) -> int:
    """A time of a vector: MIN, MAX, or a sum over I and R."""
    special = {"MIN": -(2**63), "MAX": 2**63 - 1, "-1": -1}
    if text in special:
        return special[text]
    total = 0
    for sign, factor, name in re.findall(r"([+-]?)(\d*)([IR]?)", text):
        if factor or name:
            unit = {"I": INTERVAL, "R": RETENTION, "": 1}[name]
            total += (-1 if sign == "-" else 1) * int(factor or 1) * unit
    return total


def version(text: str, *, with_end: bool = True) -> VersionedRecord[str] | None:
    if text == "null":
        return None
    value, _, times = text.partition("@")
    began, _, ended = times.partition("..")
    return VersionedRecord(value, moment(began), moment(ended) if ended and with_end else None)


def check(store: Any, step: str) -> None:
    """Do one step of a vector, and compare its result."""
    words = re.fullmatch(r"(?:(\w+) )?(?:put (\S+?):(\S*) -> (\S+)|(g|a|del|m)(?:\((.*?)\))? = (.*))", step)
    assert words, step
    key, at, value, returned, what, arguments, answer = words.groups()
    key = key or "k"
    if at is not None:
        assert store.put(key, None if value == "~" else value, moment(at)) == moment(returned), step
    elif what == "g":
        assert store.get(key) == version(answer, with_end=False), step
    elif what == "a":
        assert store.get(key, as_of=moment(arguments)) == version(answer), step
    elif what == "del":
        deleted, expected = store.delete(key, moment(arguments)), version(answer)
        assert (deleted and (deleted.value, deleted.timestamp)) == (expected and (expected.value, expected.timestamp)), step
    else:
        start, end, order = arguments.split(",")
        rows = listed(store.history(key, moment(start), moment(end), reverse=order == "desc"))
        assert rows == [version(each) for each in answer.strip("[]").split()], step


def steps(text: str) -> list[str]:
    return [step.strip() for step in text.split(";")]


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("interval", [INTERVAL, 1])
def test_vector(vector: str, interval: int, home: MakeHome) -> None:
    made = home(Stores.versioned("v", key=str, value=str, history_retention=RETENTION, segment_interval=interval))
    for number, step in enumerate(steps(VECTORS[vector])):
        check(made.store, step)
        if number % 3 == 2:
            made.restart()


def test_without_retention_only_the_present_is_kept(home: MakeHome) -> None:
    made = home(Stores.versioned("v", key=str, value=str, history_retention=0))
    for step in steps(ZERO_RETENTION):
        check(made.store, step)
        made.commit()


def test_restored_puts_are_judged_as_they_were_the_first_time(home: MakeHome) -> None:  # B56
    made = home(Stores.versioned("v", history_retention=30))
    puts = [("k1", "x", 0), ("k2", "y", 100), ("k2", "z", 80), ("k2", "z2", 80), ("k3", None, 90)]
    for key, value, at in puts:
        made.store.put(key, value, at)
    before = [made.store.get(key, as_of=at) for key in ("k1", "k2", "k3") for at in range(60, 110)]
    made.restart()

    assert made.store.get("k1").value == "x"
    assert made.store.get("k2", as_of=80) == VersionedRecord("z2", 80, 100)
    assert made.store.get("k2", as_of=100).value == "y"
    assert [made.store.get(key, as_of=at) for key in ("k1", "k2", "k3") for at in range(60, 110)] == before
    assert made.store.observed == 100


def test_history_is_as_it_was_when_it_was_asked_for(home: MakeHome) -> None:  # Q28
    made = home(Stores.versioned("v", history_retention=1_000))
    for at, value in ((0, 2), (10, 20), (20, 200), (30, 2000)):
        made.store.put("k", value, at)
    made.commit()
    for reverse in (False, True):
        rows = made.store.history("k", reverse=reverse)
        taken = [next(rows)]
        made.store.put("k", -1, 0)
        made.store.put("k", -1, 40)
        made.commit()

        assert [row.value for row in (*taken, *listed(rows))] == ([2000, 200, 20, 2] if reverse else [2, 20, 200, 2000])
        made.store.put("k", 2, 0)
        made.store.delete("k", 40)
        made = home(Stores.versioned("v", history_retention=1_000))
        for at, value in ((0, 2), (10, 20), (20, 200), (30, 2000)):
            made.store.put("k", value, at)


def test_a_start_after_the_end_is_a_wrong_argument(home: MakeHome) -> None:
    store = home(Stores.versioned("v", history_retention=10)).store

    with pytest.raises(ValueError, match="the start is after the end"):
        store.history("k", 2, 1)


def test_neighbours_are_the_versions_around_a_time_tombstones_too(home: MakeHome) -> None:
    made = home(Stores.versioned("v", history_retention=100))
    for at, value in ((10, "a"), (20, None), (30, "c")):
        made.store.put("k", value, at)
    made.commit()

    def around(at: int) -> list[Any]:
        return [one and (one.value, one.timestamp) for one in made.store.neighbours("k", at)]

    a, b, c = ("a", 10), (None, 20), ("c", 30)
    assert [around(at) for at in (5, 10, 15)] == [[None, None, a], [None, a, b], [a, None, b]]
    assert [around(at) for at in (20, 25, 30, 35)] == [[a, b, c], [b, None, c], [b, c, None], [c, None, None]]
    assert made.store.neighbours("other", 1) == (None, None, None)


def test_put_tells_what_it_did_by_name(home: MakeHome) -> None:
    store = home(Stores.versioned("v", history_retention=10)).store

    assert store.put("k", 1, 100) == PUT_LATEST
    assert store.put("k", 1, 89) == PUT_REFUSED
    assert store.put("k", 1, 90) == 100
    assert store.dropped == 1
    assert store.delete("k", 89) is None
    assert store.dropped == 2


def test_expired_versions_leave_the_disk(home: MakeHome) -> None:
    made = home(Stores.versioned("v", history_retention=100, segment_interval=10))
    for at in range(0, 5_000, 5):
        made.store.put("k", at, at)
        made.store.put(f"k{at}", None, at)
        if at % 100 == 0:
            made.commit()
    made.commit()

    assert made.database.verify() < 150
    assert made.store.get("k", as_of=4_900).value == 4_900
