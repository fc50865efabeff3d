"""All vectors of the runtime specification, A to F and S: exact lists of outputs, drops, and the stores at the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from raystreams import TopologyTestDriver
from tests.operators.aggregation_texts import drops, inputs, key_text, read, value_text
from tests.operators.runtime_vectors import NOT_OURS, ON_SECOND, SHAPES, VECTORS, topology

OURS = [vector for vector in VECTORS if vector["id"] not in NOT_OURS]

NOTHING_IS_LOST = {
    "C12": "A[0,10)=0+1+1@5 A[5,15)=0+1@5 B[5,15)=0+2@10"
    " B[10,20)=0+2@10 C[10,20)=0+3@15 C[15,25)=0+3@15 D[15,25)=0+4@20 D[20,30)=0+4@20",
    "C21": "A[0,10)=0+1+2@5 A[5,15)=0+2+3@10 B[5,15)=0+4+5@11"
    " A[10,20)=0+3@10 B[10,20)=0+5+6@15 B[15,25)=0+6@15",
    "C23": "A[0,10)=0+1+2@5 B[0,10)=0+4@6"
    " A[5,15)=0+2+3@10 B[5,15)=0+4+5@11 A[10,20)=0+3@10 B[10,20)=0+5+6@15",
}  # fmt: skip
"""Closed windows that Kafka Streams' own store hides before they are given out (3.6); ours are given out. No throttle (C12)."""

BY_THE_RULES = {
    "E11": "dummy[0,0]=1@0 OnTime1[0,0]=1@0 dummy[11,11]=1@11",
    "E12": "dummy[0,0]=1@0 OnTime1[0,0]=1@0 dummy[11,11]=1@11 OnTime2[0,0]=1@0 dummy[11,11]=null@11 dummy[11,12]=2@12",
}
"""Kafka's test asserts only the drops."""

BEFORE = {"C13": "A:1@0 B:2@5 C:3@15"}
"""What came before a restart; the vector's input and output come after it."""


def send_all(driver: TopologyTestDriver, id: str, text: str) -> None:
    for key, value, time in inputs(text):
        topic = "other" if value in ON_SECOND.get(id, ()) else "in"
        driver.input_topic(topic).send(value, key=key, timestamp=time)


@pytest.mark.parametrize("vector", OURS, ids=[vector["id"] for vector in OURS])
def test_a_vector_gives_its_outputs_drops_and_store(vector: dict[str, Any]) -> None:
    id = vector["id"]
    closed = id[0] in "DE" or id in ("F8", "S6", "S7")
    with TopologyTestDriver(topology(SHAPES[id])) as driver:
        if id in BEFORE:
            send_all(driver, id, BEFORE[id])
            read(driver)
            driver.crash()
        send_all(driver, id, vector["input"])
        outputs = read(driver, closed=closed).split()

        expected = (NOTHING_IS_LOST.get(id) or BY_THE_RULES.get(id) or vector["output"]).split()
        if vector["exact_order"]:
            assert outputs == expected
        elif id == "D7":  # equal ones count once
            assert set(outputs) == set(expected)
        else:
            assert Counter(outputs) == Counter(expected)
        if vector["dropped"] is not None:
            assert drops(driver) == vector["dropped"]
        if vector["final_store"] is not None:
            last = {word.partition("=")[0]: word for word in outputs}
            with driver.store("store").all() as rows:
                kept = [f"{key_text(key)}={value_text(value)}" for key, value in rows]
            assert sorted(last.values()) == sorted(vector["final_store"].split())
            assert sorted(kept) == sorted(word.rpartition("@")[0] for word in last.values())


def test_every_vector_is_run_or_says_why_not() -> None:
    assert {vector["id"] for vector in VECTORS} == {*SHAPES, *NOT_OURS}


@pytest.mark.parametrize("vector", OURS, ids=[vector["id"] for vector in OURS])
def test_a_vector_says_the_same_when_it_crashes_between_commits(vector: dict[str, Any]) -> None:
    id = vector["id"]
    lists = []
    for crashes in (False, True):
        with TopologyTestDriver(topology(SHAPES[id]), auto_commit=False) as driver:
            for number, word in enumerate(vector["input"].split()):
                send_all(driver, id, word)
                if number % 3 == 0:
                    driver.commit()
                if crashes and number % 2:
                    driver.crash()
            driver.commit()
            lists.append((read(driver), drops(driver)))

    assert lists[0] == lists[1]
