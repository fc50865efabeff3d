"""The join of a stream with a table (spec-joins 5, vectors ST-01 to ST-08; field report B31)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raystreams import (
    KStream,
    Materialized,
    ProcessingError,
    Record,
    StreamsBuilder,
    Topic,
    Topology,
    TopologyTestDriver,
)
from tests.operators.scenario import dashed, one_key, rows, run

METHODS = ("join", "left_join")
KINDS = pytest.mark.parametrize("column", [0, 1], ids=METHODS)


def joined(
    method: str,
    *,
    stream: str = "S",
    table: str = "T",
    retention: int | None = None,
    joiner: Callable[..., Any] = dashed,
    keyed: Callable[[KStream[Any, Any]], KStream[Any, Any]] = lambda s: s,
    **options: Any,
) -> Topology:
    """A stream joined with a table; `retention` makes the table versioned, `keyed` may change the stream's key."""
    builder = StreamsBuilder()
    materialized = None if retention is None else Materialized.versioned("t", history_retention=retention)
    other = builder.table(table, materialized=materialized)
    getattr(keyed(builder.stream(stream)), method)(other, joiner, **options).to("out")
    return builder.build()


ST_01_TO_06 = """
    L ~ 1  | d      | d        | d      | d        | d     | d
    R ~ 2  | ·      | ·        | ·      | ·        | ·     | ·
    L A 3  | ·      | A-null@3 | ·      | A-null@3 | ·     | ·
    R a 4  | ·      | ·        | ·      | ·        | ·     | ·
    L B 5  | B-a@5  | B-a@5    | B-a@5  | B-a@5    | ·     | A-null@3
    R b 6  | ·      | ·        | ·      | ·        | ·     | ·
    L ~ 7  | d      | d        | d      | d        | d     | d
    R ~ 8  | ·      | ·        | ·      | ·        | ·     | ·
    L C 9  | ·      | C-null@9 | ·      | C-null@9 | B-a@5 | B-a@5
    R c 10 | ·      | ·        | ·      | ·        | ·     | ·
    R ~ 11 | ·      | ·        | ·      | ·        | ·     | ·
    L ~ 12 | d      | d        | d      | d        | d     | d
    R ~ 13 | ·      | ·        | ·      | ·        | ·     | ·
    R d 7  | ·      | ·        | ·      | ·        | ·     | ·
    L D 6  | D-d@6  | D-d@6    | D-b@6  | D-b@6    | D-b@6 | D-b@6
    L ~ 2  | d      | d        | d      | d        | d     | d
    R ~ 3  | ·      | ·        | ·      | ·        | ·     | ·
    R e 14 | ·      | ·        | ·      | ·        | ·     | ·
    L E 15 | E-e@15 | E-e@15   | E-e@15 | E-e@15   | ·     | C-null@9
    L ~ 10 | d      | d        | d      | d        | d     | d
    R ~ 9  | ·      | ·        | ·      | ·        | ·     | ·
    L F 4  | ·      | F-null@4 | F-a@4  | F-a@4    | F-a@4 | F-a@4
    R f 3  | ·      | ·        | ·      | ·        | ·     | ·
"""


@KINDS
def test_st_01_and_02_unversioned_rows_are_those_of_now(column: int) -> None:
    run(joined(METHODS[column], stream="L", table="R"), one_key(ST_01_TO_06, column))


@KINDS
def test_st_03_and_04_versioned_rows_are_those_of_the_records_time(column: int) -> None:
    run(joined(METHODS[column], stream="L", table="R", retention=1000), one_key(ST_01_TO_06, column + 2))


def test_b31_a_late_record_finds_the_row_of_its_time() -> None:
    inputs = ("T k b0 0", "S k a1 1", "T k b3 3", "S k a4 4", "S k a2 2")

    run(joined("join", retention=1000), zip(inputs, ("-", "k:a1-b0@1", "-", "k:a4-b3@4", "k:a2-b0@2"), strict=True))
    run(joined("join"), zip(inputs, ("-", "k:a1-b0@1", "-", "k:a4-b3@4", "k:a2-b3@2"), strict=True))


def test_st_07_a_left_join_in_mixed_order_with_null_keys_and_values() -> None:
    vector = """
        S k s1 5 h1  ->  k:s1-null@5<h=h1>
        T k t1 4     ->  -
        S k s2 3     ->  k:s2-null@3
        S k s3 6     ->  k:s3-t1@6
        T k t2 10    ->  -
        S k s4 5     ->  k:s4-t1@5
        S k s5 20    ->  k:s5-t2@20
        T k ~ 15     ->  -
        S k s6 12    ->  k:s6-t2@12
        S k s7 30    ->  k:s7-null@30
        S k ~ 31     ->  -   #dropped+1
        S ~ n 32     ->  null:n-null@32
        T k t0 2     ->  -
        S k s8 33    ->  k:s8-null@33
    """

    run(joined("left_join", retention=1000), rows(vector))


def test_st_08_older_than_the_history_is_no_match_unless_the_latest_row_was_valid_then() -> None:
    vector = """
        T k a 1    ->  -
        T k b 5    ->  -
        S k s 1    ->  k:s-a@1
        S k s 5    ->  k:s-b@5
        T k c 100  ->  -
        S k s 1    ->  k:s-null@1
        S k s 50   ->  k:s-null@50
        S k s 89   ->  k:s-null@89
        S k s 90   ->  k:s-b@90
        S k s 100  ->  k:s-c@100
        T j z 3    ->  -   #dropped+1
        S j s 5    ->  j:s-null@5
        T q y 95   ->  -
        S q w 96   ->  q:w-y@96
    """

    run(joined("left_join", retention=10), rows(vector))


def test_an_inner_join_drops_null_keys_and_null_values_and_counts_no_other() -> None:
    with TopologyTestDriver(joined("join", name="j")) as driver:
        for key, value in ((None, "v"), ("k", None), (None, None), ("k", "v")):
            driver.input_topic("S").send(value, key=key, timestamp=1)

        assert driver.output_topic("out").read_all() == []
        assert driver.dropped == {("j", "null key"): 1, ("j", "null value"): 2}


def test_headers_are_the_streams() -> None:
    run(joined("join"), [("T k t 1 ht", "-"), ("S k s 2 hs", "k:s-t@2<h=hs>")])


def test_a_joiner_with_key_gets_it_first() -> None:
    topology = joined("left_join", joiner=lambda key, a, b: f"{key}/{a}/{b}", with_key=True)

    run(topology, [("S k s 1", "k:k/s/None@1"), ("S ~ s 2", "null:None/s/None@2")])


def test_a_joiner_may_return_none_in_a_stream() -> None:
    run(joined("left_join", joiner=lambda a, b: b), [("S k s 1", "k:null@1")])


# ---- keys that were changed


def initial(key: str | None, value: str | None) -> str | None:
    return None if value in (None, "-") else value[0]


@KINDS
@pytest.mark.parametrize("partitions", [1, 3])
def test_records_with_a_new_key_are_routed_to_their_rows(column: int, partitions: int) -> None:
    """A left join keeps records without a key, an inner one loses them on the way, silently."""
    topology = joined(METHODS[column], keyed=lambda s: s.select_key(initial))
    vector = """
        T x row 1   | -         | -
        S k x1 2    | x:x1-row@2 | same
        S q y1 3    | -         | y:y1-null@3
        S q - 4     | -         | null:--null@4
        S q ~ 5     | -         | - #dropped+1
    """
    lines = [
        (given, cells[column] if cells[column] != "same" else cells[0])
        for given, *cells in ([cell.strip() for cell in line.split("|")] for line in vector.strip().splitlines())
    ]

    run(topology, lines, partitions=partitions)


def test_the_repartition_is_named_after_the_join_or_else_after_the_stream() -> None:
    def channels(**options: Any) -> list[str]:
        return list(joined("join", keyed=lambda s: s.select_key(initial), **options).channels)

    assert channels(name="enrich") == ["enrich-repartition"]
    assert channels() == ["KSTREAM-KEY-SELECT-0000000004-repartition"]


def test_two_joins_without_names_share_the_repartition_of_their_stream() -> None:
    builder = StreamsBuilder()
    keyed = builder.stream("S").select_key(initial)
    keyed.join(builder.table("T"), dashed).to("out")
    keyed.left_join(builder.table("U"), dashed).to("out")
    topology = builder.build()

    assert list(topology.channels) == ["KSTREAM-KEY-SELECT-0000000001-repartition"]
    # The left join wants records without a key, so the inner one sees them too, and counts them.
    run(topology, [("T x t 1", "-"), ("S k x1 2", "x:x1-t@2 x:x1-null@2"), ("S k - 3", "null:--null@3 #dropped+1")])


def test_nothing_is_routed_that_has_its_key_still() -> None:
    assert dict(joined("join", keyed=lambda s: s.map_values(str).filter(lambda k, v: True)).channels) == {}


# ---- what is looked up in


def test_a_join_of_tables_is_looked_up_in_without_a_store_of_its_own() -> None:
    builder = StreamsBuilder()
    table = builder.table("T").join(builder.table("U"), dashed)
    builder.stream("S").left_join(table, dashed).to("out")

    run(builder.build(), [("T k t 1", "-"), ("S k s 2", "k:s-null@2"), ("U k u 3", "-"), ("S k s 4", "k:s-t-u@4")])


def test_what_the_table_does_later_emits_nothing() -> None:
    run(joined("left_join"), [("S k s 5", "k:s-null@5"), ("T k t 3", "-"), ("T k ~ 9", "-")])


def test_keys_of_another_type_than_the_tables_are_an_error() -> None:
    builder = StreamsBuilder()
    table = builder.table(Topic("T", key=int, value=str))
    builder.stream("S").join(table, dashed, name="j").to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match="'j' failed on key '7' at time 1"),
    ):
        driver.input_topic("S").send("s", key="7", timestamp=1)


def test_a_joiner_that_raises_is_skipped_or_ends_the_task() -> None:
    def no(left: str, right: str) -> str:
        raise ValueError(left)

    with TopologyTestDriver(joined("left_join", joiner=no, name="j", on_error="skip")) as driver:
        driver.input_topic("S").send("s", key="k", timestamp=1)

        assert driver.dropped == {("j", "error"): 1}

    with (
        TopologyTestDriver(joined("left_join", joiner=no, name="j")) as driver,
        pytest.raises(ProcessingError, match="'j' failed on key 'k' at time 1"),
    ):
        driver.input_topic("S").send("s", key="k", timestamp=1)


def test_both_must_come_from_one_builder() -> None:
    with pytest.raises(ValueError, match="same StreamsBuilder"):
        StreamsBuilder().stream("S").join(StreamsBuilder().table("T"), dashed)


def test_names_are_kafkas() -> None:
    builder = StreamsBuilder()
    table, stream = builder.table("T"), builder.stream("S")
    stream.join(table, dashed)
    stream.left_join(table, dashed)
    keyed = stream.select_key(initial)
    keyed.join(table, dashed)
    topology = builder.build()

    assert list(topology.nodes)[3:] == [
        "KSTREAM-JOIN-0000000004",
        "KSTREAM-LEFTJOIN-0000000005",
        "KSTREAM-KEY-SELECT-0000000006",
        "KSTREAM-KEY-SELECT-0000000006-repartition-sink",
        "KSTREAM-KEY-SELECT-0000000006-repartition-source",
        "KSTREAM-JOIN-0000000010",
    ]


def test_results_survive_a_crash_once() -> None:
    with TopologyTestDriver(joined("left_join"), auto_commit=False) as driver:
        driver.input_topic("T").send("t", key="k", timestamp=1)
        driver.commit()
        driver.input_topic("S").send("s", key="k", timestamp=2)
        driver.crash()
        driver.commit()

        assert driver.output_topic("out").read_all() == [Record("k", "s-t", 2)]
