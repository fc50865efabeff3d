"""Foreign-key joins of tables against the specification's vectors (spec-joins 11.4) and reported faults."""

from __future__ import annotations

from typing import Any

import pytest

from raystreams import Materialized, Record, Repartitioned, StreamsBuilder, TableJoined, TopologyTestDriver
from tests.operators.foreign_keys import INNER_AND_LEFT, of_tables
from tests.operators.scenario import after_bar, columns, dashed, rows, run


def versioned(name: str) -> Materialized[Any, Any]:
    return Materialized.versioned(name, history_retention=1000)


VECTORS = {
    "FK-01, FK-02: timestamps, headers, deletion on the right": r"""
        R r1 x 10 hr     | -                                    | -
        L a A\|r1 5 hl   | a:A\|r1-x@10<h=hl>                   | same
        L b B\|r1 20 hl2 | b:B\|r1-x@20<h=hl2>                  | same
        R r1 y 7 hr2     | a:A\|r1-y@7<h=hr2> b:B\|r1-y@7<h=hr2> | same
        R r1 ~ 8 hr3     | a:null@8<h=hr3> b:null@8<h=hr3>      | a:A\|r1-null@8<h=hr3> b:B\|r1-null@8<h=hr3>
        R r1 z 30 hr4    | a:A\|r1-z@30<h=hr4> b:B\|r1-z@30<h=hr4> | same
    """,
    "FK-03, FK-04: life of a left row": r"""
        R rhs1 v1 0      | -                   | -
        R rhs2 v2 1      | -                   | -
        R rhs3 v3 2      | -                   | -
        L lhs1 a\|rhs1 3 | lhs1:a\|rhs1-v1@3   | same
        L lhs2 b\|rhs2 4 | lhs2:b\|rhs2-v2@4   | same
        L lhs3 c\|rhs1 5 | lhs3:c\|rhs1-v1@5   | same
        L lhs1 ~ 6       | lhs1:null@6         | same
    """,
    "FK-05, FK-06: life of a right row": r"""
        L lhs1 a\|rhs1 0 | -                                       | lhs1:a\|rhs1-null@0
        L lhs2 b\|rhs2 1 | -                                       | lhs2:b\|rhs2-null@1
        L lhs3 c\|rhs1 2 | -                                       | lhs3:c\|rhs1-null@2
        R rhs1 v1 3      | lhs1:a\|rhs1-v1@3 lhs3:c\|rhs1-v1@3     | same
        R rhs2 v2 4      | lhs2:b\|rhs2-v2@4                       | same
        R rhs3 v3 5      | -                                       | -
        R rhs1 ~ 6       | lhs1:null@6 lhs3:null@6                 | lhs1:a\|rhs1-null@6 lhs3:c\|rhs1-null@6
    """,
    "FK-07, FK-08: moves between keys without a row": r"""
        L lhs1 a\|rhs1 0 | -                 | lhs1:a\|rhs1-null@0
        L lhs1 a\|rhs2 1 | lhs1:null@1       | lhs1:a\|rhs2-null@1
        L lhs1 a\|rhs3 2 | lhs1:null@2       | lhs1:a\|rhs3-null@2
        R rhs1 v1 3      | -                 | -
        L lhs1 a\|rhs1 4 | lhs1:a\|rhs1-v1@4 | same
        L lhs1 a\|rhs2 5 | lhs1:null@5       | lhs1:a\|rhs2-null@5
    """,
    "FK-09: a row that moved is no longer subscribed": r"""
        R rhs1 v1 0      | -                 | -
        R rhs2 v2 1      | -                 | -
        L lhs1 a\|rhs1 2 | lhs1:a\|rhs1-v1@2 | same
        L lhs1 a\|rhs2 3 | lhs1:a\|rhs2-v2@3 | same
        R rhs1 v1d 4     | -                 | -
    """,
    "FK-12, FK-13: to and from a null foreign key": r"""
        R r1 x 1      | -                       | -
        L a A\|~ 2    | - #dropped+1            | a:A\|~-null@2
        L a A2\|~ 3   | - #dropped+1            | a:A2\|~-null@3
        L a A\|r1 4   | a:A\|r1-x@4             | same
        L a A\|~ 5    | a:null@5 #dropped+1     | a:A\|~-null@5
        R r1 y 6      | -                       | -
        L a ~ 7       | -                       | a:null@7
        L b B\|~ 8    | - #dropped+1            | b:B\|~-null@8
        L b B\|r1 9   | b:B\|r1-y@9             | same
    """,
    "FK-15, FK-16: changes of the foreign key": r"""
        R r1 x 1    | -             | -
        R r2 y 2    | -             | -
        L a A\|r1 3 | a:A\|r1-x@3   | same
        L a A\|r2 4 | a:A\|r2-y@4   | same
        R r1 xx 5   | -             | -
        L a A\|r3 6 | a:null@6      | a:A\|r3-null@6
        L a A\|r4 7 | a:null@7      | a:A\|r4-null@7
        L a A\|r1 8 | a:A\|r1-xx@8  | same
        L a ~ 9     | a:null@9      | same
        L a ~ 10    | -             | -
    """,
    "FK-18: the same foreign key without a row": r"""
        L a A\|r1 1  | -        | a:A\|r1-null@1
        L a A2\|r1 2 | -        | a:A2\|r1-null@2
        L a ~ 3      | a:null@3 | same
    """,
    "FK-19, FK-20: out of order, without versions": r"""
        R rhs1 v 4         | -                                         | -
        L lhs1 a\|rhs1 3   | lhs1:a\|rhs1-v@4                          | same
        L lhs2 b\|rhs1 5   | lhs2:b\|rhs1-v@5                          | same
        L lhs2 ~ 6         | lhs2:null@6                               | same
        L lhs1 ao\|rhs1 2  | lhs1:ao\|rhs1-v@4                         | same
        L lhs2 bo\|rhs1 2  | lhs2:bo\|rhs1-v@4                         | same
        L lhs1 ~ 2         | lhs1:null@4                               | lhs1:null@2
        L lhs1 an\|rhs1 8  | lhs1:an\|rhs1-v@8                         | same
        L lhs2 bn\|rhs1 8  | lhs2:bn\|rhs1-v@8                         | same
        R rhs1 vo 1        | lhs1:an\|rhs1-vo@1 lhs2:bn\|rhs1-vo@1     | same
        R rhs1 ~ 1         | lhs1:null@1 lhs2:null@1                   | lhs1:an\|rhs1-null@1 lhs2:bn\|rhs1-null@1
        R rhs1 vn 6        | lhs1:an\|rhs1-vn@6 lhs2:bn\|rhs1-vn@6     | same
    """,
    "FK-24: equal values and repeated deletions on the right": r"""
        L a A\|r1 1 | -             | a:A\|r1-null@1
        R r1 ~ 2    | a:null@2      | a:A\|r1-null@2
        R r1 ~ 3    | a:null@3      | a:A\|r1-null@3
        R r1 x 4    | a:A\|r1-x@4   | same
        R r1 x 5    | a:A\|r1-x@5   | same
    """,
    "B02: one result for a changed foreign key, one tombstone for a deletion": r"""
        R r1 A 0     | -            | -
        R r2 B 0     | -            | -
        L p v\|r1 10 | p:v\|r1-A@10 | same
        L p v\|r2 20 | p:v\|r2-B@20 | same
        L p ~ 30     | p:null@30    | same
    """,
    "B04, B06: the previous foreign key was null": r"""
        L p 1\|~ 10  | - #dropped+1              | p:1\|~-null@10
        R r1 A 20    | -                         | -
        L p 1\|r1 30 | p:1\|r1-A@30              | same
        L p 3\|~ 40  | p:null@40 #dropped+1      | p:3\|~-null@40
    """,
    "B11: deletions of rows that never existed, or never joined": r"""
        L p ~ 10     | -         | -
        L q 1\|r9 20 | -         | q:1\|r9-null@20
        L q ~ 30     | q:null@30 | same
    """,
}

VERSIONED_VECTOR = r"""
    R rhs1 v 4         | -                                       | -
    L lhs1 a\|rhs1 3   | lhs1:a\|rhs1-v@4                        | same
    L lhs2 b\|rhs1 5   | lhs2:b\|rhs1-v@5                        | same
    L lhs2 ~ 6         | lhs2:null@6                             | same
    L lhs1 ao\|rhs1 2  | - #dropped+1                            | same
    L lhs2 bo\|rhs1 2  | - #dropped+1                            | same
    L lhs1 ~ 2         | - #dropped+1                            | same
    L lhs1 an\|rhs1 8  | lhs1:an\|rhs1-v@8                       | same
    L lhs2 bn\|rhs1 8  | lhs2:bn\|rhs1-v@8                       | same
    R rhs1 vo 1        | - #dropped+1                            | same
    R rhs1 ~ 1         | - #dropped+1                            | same
    R rhs1 vn 6        | lhs1:an\|rhs1-vn@6 lhs2:bn\|rhs1-vn@6   | same
"""


@INNER_AND_LEFT
@pytest.mark.parametrize("vector", VECTORS)
def test_vectors(vector: str, kind: str, column: int) -> None:
    run(of_tables(kind), columns(VECTORS[vector], column))


@INNER_AND_LEFT
def test_fk_21_and_22_older_records_of_versioned_tables_change_nothing(kind: str, column: int) -> None:
    run(of_tables(kind, left=versioned("l"), right=versioned("r")), columns(VERSIONED_VECTOR, column))


def test_fk_23_only_the_versioned_side_ignores_older_records() -> None:
    run(
        of_tables("left", right=versioned("r")),
        rows("""
            R r x 10   -> -
            L a A|r 5  -> a:A|r-x@10
            R r old 3  -> - #dropped+1
            R r y 20   -> a:A|r-y@20
            L a B|r 1  -> a:B|r-y@20
            R r ~ 15   -> - #dropped+1
            R r ~ 25   -> a:B|r-null@25
        """),
    )


def test_fk_10_a_foreign_key_does_not_find_those_that_it_begins() -> None:
    run(
        of_tables(),
        rows("""
            L p1 A|fk 1   ->  -
            L p2 B|fk1 2  ->  -
            L p3 C|fk 3   ->  -
            R fk x 4      ->  p1:A|fk-x@4 p3:C|fk-x@4
            R fk1 y 5     ->  p2:B|fk1-y@5
        """),
    )


@pytest.mark.parametrize("other", ["a\x00", "a\x00b", "ab", "a\x01", "a\xff"])
def test_b07_no_byte_in_a_key_ends_it(other: str) -> None:
    with TopologyTestDriver(of_tables()) as driver:
        driver.input_topic("L").send(f"1|{other}", key="q", timestamp=0)
        driver.input_topic("L").send("1|a", key="p", timestamp=0)
        driver.input_topic("R").send("X", key="a", timestamp=10)

        assert driver.output_topic("out").read_all() == [Record("p", "1|a-X", 10)]


def test_fk_11_subscribers_are_answered_in_the_order_of_their_keys_bytes() -> None:
    run(
        of_tables(),
        rows("""
            L b B|r 1   ->  -
            L a A|r 2   ->  -
            L c C|r 3   ->  -
            L aa D|r 4  ->  -
            R r x 5     ->  a:A|r-x@5 aa:D|r-x@5 b:B|r-x@5 c:C|r-x@5
        """),
    )


def test_fk_27_an_empty_right_value_is_not_a_missing_one() -> None:
    with TopologyTestDriver(of_tables("left")) as driver:
        driver.input_topic("R").send("", key="r", timestamp=1)
        driver.input_topic("L").send("A|r", key="a", timestamp=2)

        assert driver.output_topic("out").read_values() == ["A|r-"]


@INNER_AND_LEFT
@pytest.mark.parametrize("partitions", [2, 5])
@pytest.mark.parametrize("vector", VECTORS)
def test_each_key_gets_the_same_list_from_several_partitions(vector: str, kind: str, column: int, partitions: int) -> None:
    with TopologyTestDriver(of_tables(kind)) as one, TopologyTestDriver(of_tables(kind), partitions=partitions) as several:
        lists: list[dict[str, list[Record[str, str]]]] = [{}, {}]
        for line, _ in columns(VECTORS[vector], column):
            topic, key, value, time, *_ = line.split(" ")
            for driver, found in zip((one, several), lists, strict=True):
                driver.input_topic(topic).send(None if value == "~" else value, key=key, timestamp=int(time))
                for record in driver.output_topic("out").read_all():
                    found.setdefault(record.key, []).append(record)

        assert lists[0] == lists[1]


def test_the_extractor_may_take_the_key_and_the_joiner_too() -> None:
    builder = StreamsBuilder()
    builder.table("L").join(
        builder.table("R"),
        lambda key, left, right: f"{key}/{left}/{right}",
        foreign_key=lambda key, value: key[0],
        foreign_key_with_key=True,
        with_key=True,
    ).to_stream().to("out")

    run(builder.build(), rows("""
        R a x 1  -> -
        L ab l 2 -> ab:ab/l/x@2
    """))


def test_the_extractor_and_an_inner_joiner_see_no_nulls() -> None:
    seen: list[Any] = []
    builder = StreamsBuilder()

    def foreign_key(value: Any) -> str | None:
        seen.append(value)
        return after_bar(value)

    def joiner(left: Any, right: Any) -> str:
        seen.extend((left, right))
        return dashed(left, right)

    builder.table("L").join(builder.table("R"), joiner, foreign_key=foreign_key).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for value in ("A|r", None, "A|~", "A|s", None):
            driver.input_topic("L").send(value, key="a", timestamp=1)
        driver.input_topic("R").send("x", key="r", timestamp=1)
        driver.input_topic("R").send(None, key="r", timestamp=1)

    assert None not in seen


def test_the_result_is_stored_only_if_it_is_asked_for() -> None:
    with TopologyTestDriver(of_tables(materialized=Materialized.key_value("result"))) as driver:
        driver.input_topic("R").send("x", key="r", timestamp=1)
        driver.input_topic("L").send("A|r", key="a", timestamp=2)

        assert driver.store("result").get("a") == "A|r-x"
        driver.input_topic("L").send(None, key="a", timestamp=3)
        assert driver.store("result").get("a") is None


def test_b51_answers_go_to_where_a_custom_partitioner_put_the_left_row() -> None:
    builder = StreamsBuilder()
    left = builder.stream("L").repartition(Repartitioned(partitioner=lambda key, value, partitions: 2)).to_table()
    left.join(builder.table("R"), dashed, foreign_key=after_bar).to_stream().to("out")

    with TopologyTestDriver(builder.build(), partitions=4) as driver:
        for key in "abcdef":
            driver.input_topic("L").send(f"{key}|r", key=key, timestamp=1)
        driver.input_topic("R").send("x", key="r", timestamp=2)
        driver.input_topic("L").send(None, key="a", timestamp=3)

        out = driver.output_topic("out").read_all()
        assert out == [*(Record(k, f"{k}|r-x", 2) for k in "abcdef"), Record("a", None, 3)]


def test_b52_a_right_table_with_its_own_partitioner_is_joined_by_other_partitioner() -> None:
    def by_letter(key: str, value: Any, partitions: int) -> int:
        assert value is None or value != "never"
        return ord(key[0]) % partitions

    builder = StreamsBuilder()
    right = builder.stream("R").repartition(Repartitioned(partitioner=by_letter)).to_table()
    builder.table("L").join(
        right, dashed, foreign_key=after_bar, table_joined=TableJoined(other_partitioner=by_letter)
    ).to_stream().to("out")

    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        for letter in "abcdef":
            driver.input_topic("R").send(letter.upper(), key=letter, timestamp=1)
            driver.input_topic("L").send(f"1|{letter}", key=f"k{letter}", timestamp=2)

        assert driver.output_topic("out").read_values() == [f"1|{letter}-{letter.upper()}" for letter in "abcdef"]


def test_partitioners_are_called_without_a_value_and_must_give_one_partition() -> None:
    values: list[Any] = []

    def partitioner(key: str, value: Any, partitions: int) -> Any:
        values.append(value)
        return [0, 1] if key == "bad" else None

    options = TableJoined(partitioner=partitioner, other_partitioner=partitioner)
    with TopologyTestDriver(of_tables(table_joined=options), partitions=2) as driver:
        driver.input_topic("R").send("x", key="r", timestamp=1)
        driver.input_topic("L").send("A|r", key="a", timestamp=1)
        assert driver.output_topic("out").read_values() == ["A|r-x"]

        with pytest.raises(ValueError, match="other_partitioner must return one partition"):
            driver.input_topic("L").send("A|bad", key="a", timestamp=1)

    assert set(values) == {None}


def test_names_and_numbers_are_kafkas() -> None:
    topology = of_tables()

    prefix = "KTABLE-FK-JOIN-SUBSCRIPTION-"
    assert list(topology.channels) == [f"{prefix}REGISTRATION-0000000006-topic", f"{prefix}RESPONSE-0000000014-topic"]
    assert list(topology.nodes)[4:] == [
        f"{prefix}REGISTRATION-0000000007", "KTABLE-SINK-0000000008", "KTABLE-SOURCE-0000000009",
        f"{prefix}PROCESSOR-0000000011", f"{prefix}PROCESSOR-0000000012", f"{prefix}PROCESSOR-0000000013",
        "KTABLE-SINK-0000000015", "KTABLE-SOURCE-0000000016", f"{prefix}RESPONSE-RESOLVER-PROCESSOR-0000000017",
        "KTABLE-FK-JOIN-OUTPUT-0000000018", "KTABLE-TOSTREAM-0000000020", "KSTREAM-SINK-0000000021",
    ]  # fmt: skip
    assert f"{prefix}STATE-STORE-0000000010" in topology.stores


def test_a_name_names_all_parts_and_counts_drops() -> None:
    topology = of_tables(name="order-user", materialized=Materialized.key_value("result"))

    assert [name for name in topology.nodes if name.startswith("order-user")] == [
        "order-user-subscription-registration-processor", "order-user-subscription-registration-sink",
        "order-user-subscription-registration-source", "order-user-subscription-receive",
        "order-user-subscription-join-foreign", "order-user-foreign-join-subscription",
        "order-user-subscription-response-sink", "order-user-subscription-response-source",
        "order-user-subscription-response-resolver", "order-user-result",
    ]  # fmt: skip
    assert list(topology.channels) == [
        "order-user-subscription-registration-topic", "order-user-subscription-response-topic"
    ]  # fmt: skip
    assert set(topology.stores) >= {"order-user-subscription-store", "result"}
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("L").send("A|~", key="a", timestamp=1)

        assert dict(driver.dropped) == {("order-user", "null foreign key"): 1}


def test_the_response_channel_never_holds_its_receiver_back() -> None:
    registration, response = of_tables().channels.values()

    assert (registration.feedback, response.feedback) == (False, True)


def test_there_is_no_outer_form_and_no_foreign_key_with_several_tables() -> None:
    builder = StreamsBuilder()
    left, right = builder.table("L"), builder.table("R")

    with pytest.raises(ValueError, match="no outer join by foreign_key"):
        left.outer_join(right, dashed, foreign_key=after_bar)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="one table"):
        left.join([right], dashed, foreign_key=after_bar)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        left.join(right, dashed, foreign_key="user")  # type: ignore[call-overload]
