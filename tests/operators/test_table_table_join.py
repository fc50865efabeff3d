"""The join of two tables on one key (spec-joins 3, vectors PK-01 to PK-30; field reports B32, B41)."""

from __future__ import annotations

import logging

import pytest

from raystreams import Materialized, StreamsBuilder, Topology
from tests.operators.scenario import dashed, one_key, rows, run
from tests.operators.table_joins import METHODS, joined, versioned

KINDS = pytest.mark.parametrize("column", [0, 1, 2], ids=METHODS)

PK_01_TO_06 = """
    L ~ 1  | ·       | ·         | ·         | ·       | ·         | ·
    R ~ 2  | ·       | ·         | ·         | ·       | ·         | ·
    L A 3  | ·       | A-null@3  | A-null@3  | ·       | A-null@3  | A-null@3
    R a 4  | A-a@4   | A-a@4     | A-a@4     | A-a@4   | A-a@4     | A-a@4
    L B 5  | B-a@5   | B-a@5     | B-a@5     | B-a@5   | B-a@5     | B-a@5
    R b 6  | B-b@6   | B-b@6     | B-b@6     | B-b@6   | B-b@6     | B-b@6
    L ~ 7  | null@7  | null@7    | null-b@7  | null@7  | null@7    | null-b@7
    R ~ 8  | ·       | ·         | null@8    | ·       | ·         | null@8
    L C 9  | ·       | C-null@9  | C-null@9  | ·       | C-null@9  | C-null@9
    R c 10 | C-c@10  | C-c@10    | C-c@10    | C-c@10  | C-c@10    | C-c@10
    R ~ 11 | null@11 | C-null@11 | C-null@11 | null@11 | C-null@11 | C-null@11
    L ~ 12 | ·       | null@12   | null@12   | ·       | null@12   | null@12
    R ~ 13 | ·       | ·         | ·         | ·       | ·         | ·
    R d 7  | ·       | ·         | null-d@7  | d       | d         | d
    L D 6  | D-d@7   | D-d@7     | D-d@7     | d       | d         | d
    L ~ 2  | null@7  | null@7    | null-d@7  | d       | d         | d
    R ~ 3  | ·       | ·         | null@3    | d       | d         | d
    R e 14 | ·       | ·         | null-e@14 | ·       | ·         | null-e@14
    L E 15 | E-e@15  | E-e@15    | E-e@15    | E-e@15  | E-e@15    | E-e@15
    L ~ 10 | null@14 | null@14   | null-e@14 | d       | d         | d
    R ~ 9  | ·       | ·         | null@9    | d       | d         | d
    L F 4  | ·       | F-null@4  | F-null@4  | d       | d         | d
    R f 3  | F-f@4   | F-f@4     | F-f@4     | d       | d         | d
"""

PK_07_TO_12 = """
    L ~ 1  | ·       | ·         | ·         | ·       | ·         | ·
    R ~ 2  | ·       | ·         | ·         | ·       | ·         | ·
    L A 3  | ·       | A-null@3  | A-null@3  | ·       | A-null@3  | A-null@3
    R a 4  | A-a@4   | A-a@4     | A-a@4     | A-a@4   | A-a@4     | A-a@4
    L B 5  | B-a@5   | B-a@5     | B-a@5     | B-a@5   | B-a@5     | B-a@5
    R b 6  | B-b@6   | B-b@6     | B-b@6     | B-b@6   | B-b@6     | B-b@6
    L ~ 7  | null@7  | null@7    | null-b@7  | null@7  | null@7    | null-b@7
    R ~ 8  | ·       | ·         | null@8    | ·       | ·         | null@8
    L C 9  | ·       | C-null@9  | C-null@9  | ·       | C-null@9  | C-null@9
    R c 10 | C-c@10  | C-c@10    | C-c@10    | C-c@10  | C-c@10    | C-c@10
    R ~ 11 | null@11 | C-null@11 | C-null@11 | null@11 | C-null@11 | C-null@11
    L ~ 12 | ·       | null@12   | null@12   | ·       | null@12   | null@12
    R ~ 13 | ·       | ·         | ·         | ·       | ·         | ·
    R d 7  | ·       | ·         | null-d@7  | d       | d         | d
    L D 6  | d       | d         | d         | ·       | D-null@6  | D-null@6
    L ~ 2  | d       | d         | d         | ·       | null@2    | null@2
    R ~ 3  | ·       | ·         | null@3    | d       | d         | d
    R e 14 | ·       | ·         | null-e@14 | ·       | ·         | null-e@14
    L E 15 | E-e@15  | E-e@15    | E-e@15    | E-e@15  | E-e@15    | E-e@15
    L ~ 10 | d       | d         | d         | null@14 | null@14   | null-e@14
    R ~ 9  | null@15 | E-null@15 | E-null@15 | d       | d         | d
    L F 4  | d       | d         | d         | F-e@14  | F-e@14    | F-e@14
    R f 3  | E-f@15  | E-f@15    | E-f@15    | d       | d         | d
"""


@KINDS
def test_pk_01_to_03_unversioned_tables_take_records_as_they_come(column: int) -> None:
    run(joined(METHODS[column]), one_key(PK_01_TO_06, column))


@KINDS
def test_pk_01_to_03_the_kind_of_unversioned_store_does_not_matter(column: int) -> None:
    left, right = Materialized.in_memory("l"), Materialized.key_value("r")
    result = Materialized.key_value("result")

    run(joined(METHODS[column], left, right, materialized=result), one_key(PK_01_TO_06, column))


@KINDS
def test_pk_04_to_06_versioned_tables_join_nothing_that_is_late(column: int) -> None:
    run(joined(METHODS[column], versioned("l"), versioned("r")), one_key(PK_01_TO_06, column + 3))


@KINDS
def test_pk_07_to_09_only_the_left_table_is_versioned(column: int) -> None:
    run(joined(METHODS[column], left=versioned("l")), one_key(PK_07_TO_12, column))


@KINDS
def test_pk_10_to_12_only_the_right_table_is_versioned(column: int) -> None:
    run(joined(METHODS[column], right=versioned("r")), one_key(PK_07_TO_12, column + 3))


def test_pk_13_results_have_the_larger_of_both_times() -> None:
    vector = """
        L 0 X0 5           ->  0:X0-null@5
        L 1 X1 6           ->  1:X1-null@6
        L ~ SomeVal 42     ->  -   #dropped+1
        R 0 Y0 0           ->  0:X0-Y0@5
        R 1 Y1 10          ->  1:X1-Y1@10
        R ~ AnotherVal 73  ->  -   #dropped+1
        L 0 XX0 7          ->  0:XX0-Y0@7
        L 1 XX1 7          ->  1:XX1-Y1@10
        L 2 XX2 7          ->  2:XX2-null@7
        R 0 YY0 0          ->  0:XX0-YY0@7
        R 1 YY1 5          ->  1:XX1-YY1@7
        R 2 YY2 10         ->  2:XX2-YY2@10
        L 0 XXX0 6         ->  0:XXX0-YY0@6
        L 2 XXX2 6         ->  2:XXX2-YY2@10
        R 0 ~ 5            ->  0:XXX0-null@6
        R 1 ~ 7            ->  1:XX1-null@7
        L 0 ~ 0            ->  0:null@0
        L 1 ~ 42           ->  1:null@42
        L 2 ~ 5            ->  2:null@10
    """

    run(joined("left_join"), rows(vector))


def test_pk_14_an_inner_join_deletes_also_what_never_was_a_result() -> None:
    vector = """
        R k a 1  ->  -
        L k ~ 2  ->  k:null@2
        L k ~ 3  ->  k:null@3
        R k ~ 4  ->  -
        R k ~ 5  ->  -
        L k A 6  ->  -
        R k ~ 7  ->  k:null@7
        R k b 3  ->  k:A-b@6
    """

    run(joined("join"), rows(vector))


def test_pk_15_a_left_join_repeats_its_result_at_repeated_deletions() -> None:
    vector = """
        R k a 1  ->  -
        L k ~ 2  ->  k:null@2
        L k ~ 3  ->  k:null@3
        L k A 4  ->  k:A-a@4
        R k ~ 5  ->  k:A-null@5
        R k ~ 6  ->  k:A-null@6
        L k ~ 7  ->  k:null@7
        L k ~ 8  ->  -
    """

    run(joined("left_join"), rows(vector))


def test_pk_16_an_outer_join_repeats_its_result_at_repeated_deletions() -> None:
    vector = """
        R k a 1  ->  k:null-a@1
        L k ~ 2  ->  k:null-a@2
        L k A 4  ->  k:A-a@4
        R k ~ 5  ->  k:A-null@5
        R k ~ 6  ->  k:A-null@6
        L k ~ 7  ->  k:null@7
        L k ~ 8  ->  -
    """

    run(joined("outer_join"), rows(vector))


def test_pk_17_and_18_the_example_of_kip_914() -> None:
    inputs = ("L k a0 0", "L k a4 4", "R k b2 2", "R k b1 1")

    run(joined("join", versioned("l"), versioned("r")), zip(inputs, ("-", "-", "k:a4-b2@4", "- #dropped+1"), strict=True))
    run(joined("join"), zip(inputs, ("-", "-", "k:a4-b2@4", "k:a4-b1@4"), strict=True))


def test_b32_late_deletions_and_rows_behind_a_deletion() -> None:
    inputs = ("L k a0 0", "L k a4 4", "R k b2 2", "R k b1 1", "L k ~ 20", "L k z 15")
    both = ("-", "-", "k:a4-b2@4", "- #dropped+1", "k:null@20", "- #dropped+1")
    none = ("-", "-", "k:a4-b2@4", "k:a4-b1@4", "k:null@20", "k:z-b1@15")

    run(joined("join", versioned("l"), versioned("r")), zip(inputs, both, strict=True))
    run(joined("join"), zip(inputs, none, strict=True))


def test_pk_19_what_the_history_refuses_never_reaches_the_join() -> None:
    vector = """
        L k A 100  ->  k:A-null@100
        L j B 89   ->  -   #dropped+1
        L j C 90   ->  j:C-null@90
        L j D 95   ->  j:D-null@95
        L j E 92   ->  -   #dropped+1
    """

    run(joined("left_join", versioned("l", 10)), rows(vector))


def test_pk_20_a_deletion_at_the_time_of_another_version_is_a_version() -> None:
    """DECISION: Kafka forgets that tombstone, and takes the fourth row for the latest."""
    vector = """
        L k A 5  ->  k:A-null@5
        L k B 5  ->  k:B-null@5
        L k ~ 5  ->  k:null@5
        L k C 4  ->  - #dropped+1
        L k D 6  ->  k:D-null@6
    """

    run(joined("left_join", versioned("l")), rows(vector))


def test_pk_21_rows_behind_a_deletion_are_out_of_order() -> None:
    vector = """
        L k A 3  ->  k:A-null@3
        L k ~ 5  ->  k:null@5
        L k ~ 7  ->  -
        L k C 6  ->  -   #dropped+1
        L k D 5  ->  -   #dropped+1
        L k E 7  ->  k:E-null@7
        L k F 6  ->  -   #dropped+1
    """

    run(joined("left_join", versioned("l")), rows(vector))


def test_pk_22_also_when_the_deletion_came_first() -> None:
    vector = """
        L k ~ 5  ->  -
        L k C 4  ->  -   #dropped+1
        L k D 6  ->  k:D-null@6
    """

    run(joined("left_join", versioned("l")), rows(vector))


def test_pk_24_headers_are_those_of_the_change() -> None:
    vector = """
        R k a 1 hr   ->  -
        L k A 5 hl   ->  k:A-a@5<h=hl>
        R k b 2 hr2  ->  k:A-b@5<h=hr2>
    """

    run(joined("left_join"), rows(vector))


def test_pk_25_rows_without_a_key_are_dropped() -> None:
    vector = """
        L ~ A 1  ->  -   #dropped+1
        R ~ b 1  ->  -   #dropped+1
    """

    run(joined("outer_join"), rows(vector))


def test_b41_deletions_of_what_never_was_give_nothing() -> None:
    run(joined("join"), [("L k 1 0", "-"), ("L k ~ 1", "-"), ("R k ~ 2", "-")])


def self_joined(method: str) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("L")
    getattr(table, method)(table, dashed).to_stream().to("out")
    return builder.build()


def test_pk_26_a_table_joined_with_itself_gives_two_results_and_none_at_a_deletion() -> None:
    vector = """
        L k A 1  ->  k:A-A@1 k:A-A@1
        L k B 2  ->  k:B-B@2 k:B-B@2
        L k ~ 3  ->  -
    """

    run(self_joined("join"), rows(vector))


def test_pk_26_the_left_form_says_that_the_row_is_gone() -> None:
    run(self_joined("left_join"), [("L k A 1", "k:A-A@1 k:A-A@1"), ("L k ~ 3", "k:null@3")])


def test_joins_over_a_shared_store_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    joined("join")
    assert caplog.records == []

    self_joined("join")

    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "'KTABLE-MERGE-0000000003' joins tables that share the store 'L-STATE-STORE-0000000000'" in record.getMessage()


PK_27_AND_28 = """
    L ~ 1    | ·                 | ·
    R ~ 2    | ·                 | ·
    L A 3    | ·                 | A-null-null@3
    R a 4    | A-a-a@4 A-a-a@4   | A-a-a@4 A-a-a@4
    L B 5    | B-a-a@5           | B-a-a@5
    R b 6    | B-b-b@6 B-b-b@6   | B-b-b@6 B-b-b@6
    L ~ 7    | null@7            | null-b-b@7
    R ~ 8    | ·                 | null@8 null@8
    L C 9    | ·                 | C-null-null@9
    R c 10   | C-c-c@10 C-c-c@10 | C-c-c@10 C-c-c@10
    R ~ 11   | ·                 | C-null-null@11 C-null-null@11
    L ~ 12   | ·                 | null@12
    R ~ 13   | ·                 | ·
    R d 14   | ·                 | null-d-d@14 null-d-d@14
    L D 15   | D-d-d@15          | D-d-d@15
    L ~ E 16 | d                 | d
    R ~ e 17 | d                 | d
"""


@pytest.mark.parametrize(("method", "column"), [("join", 0), ("outer_join", 1)])
def test_pk_27_and_28_two_joins_with_the_same_table(method: str, column: int) -> None:
    """The inner chain says nothing when R's row is deleted, as Kafka's does; hence the warning."""
    builder = StreamsBuilder()
    left, right = builder.table("L"), builder.table("R")

    first = getattr(left, method)(right, dashed)
    getattr(first, method)(right, dashed).to_stream().to("out")

    run(builder.build(), one_key(PK_27_AND_28, column))


def test_pk_29_a_joiner_that_returns_none_deletes() -> None:
    vector = """
        L k A 1  ->  -
        R k x 2  ->  k:null@2
        R k y 3  ->  k:Ay@3
    """

    run(joined("join", joiner=lambda a, b: None if b == "x" else a + b), rows(vector))


@pytest.mark.parametrize("stored", [False, True])
def test_pk_30_a_filtered_table_is_quiet_only_over_a_store(stored: bool) -> None:
    builder = StreamsBuilder()
    right = builder.table("R", materialized=Materialized.key_value("r") if stored else None)
    builder.table("L").join(right.filter(lambda _, v: v != "x"), dashed).to_stream().to("out")
    vector = """
        L k A 1  ->  -
        R k x 2  ->  k:null@2
        R k y 3  ->  k:A-y@3
        R k x 4  ->  k:null@4
        R k x 5  ->  k:null@5
    """
    lines = rows(vector)
    if stored:
        lines[1], lines[4] = ("R k x 2", "-"), ("R k x 5", "-")

    run(builder.build(), lines)
