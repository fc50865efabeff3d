"""The join of several tables in one step: it says what the chain of binary joins says, change by change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import Materialized, Record, StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.scenario import rows, run
from tests.operators.table_joins import METHODS

TABLES = "abcd"


def triple(a: Any, b: Any, c: Any) -> str:
    return "".join("_" if value is None else value for value in (a, b, c))


def many(method: str, **options: Any) -> Topology:
    builder = StreamsBuilder()
    a, b, c = (builder.table(name) for name in "abc")
    getattr(a, method)([b, c], triple, **options).to_stream().to("out")
    return builder.build()


def test_inner_needs_all_rows() -> None:
    vector = """
        a k A 1  ->  -
        b k B 5  ->  -
        c k C 3  ->  k:ABC@5
        a k D 6  ->  k:DBC@6
        b k ~ 7  ->  k:null@7
        b k ~ 8  ->  k:null@8
        c k E 9  ->  -
        b k F 2  ->  k:DFE@9
    """

    run(many("join"), rows(vector))


def test_left_needs_the_first_row() -> None:
    vector = """
        b k B 1  ->  -
        a k A 2  ->  k:AB_@2
        c k C 9  ->  k:ABC@9
        b k ~ 3  ->  k:A_C@9
        b k ~ 4  ->  k:A_C@9
        a k ~ 5  ->  k:null@9
        a k ~ 6  ->  -
        c k D 7  ->  -
    """

    run(many("left_join"), rows(vector))


def test_outer_needs_any_row() -> None:
    vector = """
        c k C 5  ->  k:__C@5
        b k B 1  ->  k:_BC@5
        a k ~ 6  ->  k:_BC@6
        b k ~ 7  ->  k:__C@7
        c k ~ 8  ->  k:null@8
        c k ~ 9  ->  -
        a k A 3  ->  k:A__@3
    """

    run(many("outer_join"), rows(vector))


def test_a_joiner_with_key_gets_it_first() -> None:
    builder = StreamsBuilder()
    a, b, c = (builder.table(name) for name in "abc")
    a.left_join([b, c], lambda key, *values: key + triple(*values), with_key=True).to_stream().to("out")

    run(builder.build(), [("a k A 1", "k:kA__@1")])


def test_one_other_table_is_the_binary_join() -> None:
    builder = StreamsBuilder()
    builder.table("a").join([builder.table("b")], lambda a, b: a + b, name="x")

    assert [name for name in builder.build().nodes if name.startswith("x")] == ["x-join-this", "x-join-other", "x"]


def test_there_are_no_stores_but_the_tables_own() -> None:
    topology = many("join", name="x")

    assert list(topology.stores) == ["a-STATE-STORE-0000000000", "b-STATE-STORE-0000000003", "c-STATE-STORE-0000000006"]
    assert [name for name in topology.nodes if name.startswith("x")] == [
        "x-join-this", "x-join-other", "x-join-other-2", "x"
    ]  # fmt: skip


def test_no_other_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one table"):
        StreamsBuilder().table("a").join([], triple)


def test_the_result_can_be_looked_up_in() -> None:
    builder = StreamsBuilder()
    a, b, c = (builder.table(name) for name in "abc")
    builder.stream("s").left_join(a.left_join([b, c], triple), lambda s, row: f"{s}:{row}").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for topic, value, timestamp in (("b", "B", 8), ("s", "s", 1), ("a", "A", 3), ("s", "s", 2)):
            driver.input_topic(topic).send(value, key="k", timestamp=timestamp)

        assert driver.output_topic("out").read_all() == [Record("k", "s:None", 1), Record("k", "s:AB_", 2)]


def compared(method: str, versioned: tuple[bool, ...], *, in_one: bool) -> Topology:
    """Four tables, joined in one step or one after the other, the result asked for old values."""
    builder = StreamsBuilder()
    first, *others = (
        builder.table(name, materialized=Materialized.versioned(name, history_retention=100) if one else None)
        for name, one in zip(TABLES, versioned, strict=True)
    )
    if in_one:
        result = getattr(first, method)(others, lambda *values: list(values))
    else:
        result = getattr(first, method)(others[0], lambda a, b: [a, b])
        for width, other in enumerate(others[1:], 2):
            result = getattr(result, method)(
                other, lambda row, value, width=width: [*(row if row is not None else [None] * width), value]
            )
    # An outer join with an empty table changes nothing, and wants old values.
    result.outer_join(builder.table("empty"), lambda row, _: row).to_stream().to("out")
    return builder.build()


CHANGES = st.lists(
    st.tuples(st.sampled_from(TABLES), st.sampled_from("kj"), st.none() | st.sampled_from("xy"), st.integers(0, 9)),
    max_size=30,
)


@pytest.mark.parametrize("method", METHODS)
@given(changes=CHANGES, versioned=st.tuples(*[st.booleans()] * len(TABLES)))
@settings(max_examples=15, deadline=None)
def test_every_change_gives_what_the_chain_gives(
    method: str, changes: list[tuple[str, str, str | None, int]], versioned: tuple[bool, ...]
) -> None:
    lists = []
    for in_one in (True, False):
        with TopologyTestDriver(compared(method, versioned, in_one=in_one)) as driver:
            for topic, key, value, timestamp in changes:
                driver.input_topic(topic).send(value, key=key, timestamp=timestamp)
            lists.append(driver.output_topic("out").read_all())

    assert lists[0] == lists[1]
