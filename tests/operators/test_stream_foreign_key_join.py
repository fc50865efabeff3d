"""KIP-955, a stream joined with the table rows that point at its key, against the specification's vectors (spec-joins 11.8)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from raystreams import Joined, Materialized, Record, StreamsBuilder, TableJoined, TopologyTestDriver
from tests.operators.foreign_keys import LEFT_AND_INNER, of_stream
from tests.operators.scenario import Scenario, after_bar, columns, dashed, rows, run

joined = partial(of_stream, "table_foreign_key")

UNVERSIONED = r"""
    S o1 e1 1     | o1:e1-null@1                        | -
    T d2 x\|o1 2  | -                                   | -
    T d1 y\|o1 3  | -                                   | -
    S o1 e2 4     | o1:e2-y\|o1@4 o1:e2-x\|o1@4         | same
    T d1 y2\|o2 5 | -                                   | -
    S o1 e3 6     | o1:e3-x\|o1@6                       | same
    S o2 e4 2     | o2:e4-y2\|o2@2                      | same
    T d2 ~ 7      | -                                   | -
    S o1 e5 8     | o1:e5-null@8                        | -
    T d3 z\|~ 9   | - #dropped+1                        | same
    S ~ e6 10     | null:e6-null@10                     | - #dropped+1
    S o1 ~ 11     | - #dropped+1                        | same
    T d1 y3\|~ 12 | - #dropped+1                        | same
    S o2 e7 13    | o2:e7-null@13                       | -
"""

VERSIONED = r"""
    T d1 x\|o1 1    | -                                 | -
    T d2 y\|o1 5    | -                                 | -
    S o1 e1 3       | o1:e1-x\|o1@3                     | same
    S o1 e2 5       | o1:e2-x\|o1@5 o1:e2-y\|o1@5       | same
    S o1 e2b 0      | o1:e2b-null@0                     | -
    T d1 x2\|o2 10  | -                                 | -
    S o1 e3 9       | o1:e3-x\|o1@9 o1:e3-y\|o1@9       | same
    S o1 e4 10      | o1:e4-y\|o1@10                    | same
    S o2 e5 12      | o2:e5-x2\|o2@12                   | same
    T d1 x15\|o3 7  | -                                 | -
    S o1 e6 6       | o1:e6-x\|o1@6 o1:e6-y\|o1@6       | same
    S o1 e7 8       | o1:e7-y\|o1@8                     | same
    S o3 e8 9       | o3:e8-x15\|o3@9                   | same
    S o3 e9 10      | o3:e9-null@10                     | -
    T d2 ~ 8        | -                                 | -
    S o1 e10 7      | o1:e10-y\|o1@7                    | same
    S o1 e11 8      | o1:e11-null@8                     | -
"""

BATCH = r"""
    T d1 x\|o1 1 | -                                    | -
    T d2 y\|o1 2 | -                                    | -
    T d3 z\|o2 3 | -                                    | -
    T d4 w\|o9 4 | -                                    | -
    S o1 e 10    | o1:e-x\|o1@10 o1:e-y\|o1@10          | same
    S o2 f 11    | o2:f-z\|o2@11                        | same
    S o3 g 12    | o3:g-null@12                         | -
"""

REPORTED = r"""
    T d1 1\|O1 0  | -                                   | -
    T d2 2\|O1 0  | -                                   | -
    T d3 3\|O2 0  | -                                   | -
    T d4 4\|~ 0   | - #dropped+1                        | same
    S O1 done 10  | O1:done-1\|O1@10 O1:done-2\|O1@10   | same
    S O9 done 11  | O9:done-null@11                     | -
    T d1 1\|O2 20 | -                                   | -
    S O1 done 30  | O1:done-2\|O1@30                    | same
    T d2 ~ 40     | -                                   | -
    S O1 done 50  | O1:done-null@50                     | -
    S ~ done 60   | null:done-null@60                   | - #dropped+1
"""


@LEFT_AND_INNER
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("vector", [UNVERSIONED, BATCH, REPORTED], ids=["K-01 and K-02", "K-06", "B12"])
def test_unversioned_vectors(vector: str, kind: str, column: int, partitions: int) -> None:
    run(joined(kind), columns(vector, column), partitions=partitions)


@LEFT_AND_INNER
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("vector", [VERSIONED, BATCH], ids=["K-03 and K-04", "K-06"])
def test_versioned_vectors(vector: str, kind: str, column: int, partitions: int) -> None:
    run(joined(kind, retention=1000), columns(vector, column), partitions=partitions)


def test_b12_a_late_record_sees_the_rows_of_its_time() -> None:
    with Scenario(joined(retention=1000)) as scenario:
        scenario.check(columns(REPORTED, 0))
        scenario.check(rows("S O1 done 15 -> O1:done-1|O1@15 O1:done-2|O1@15"))


def test_k_05_rows_come_in_the_order_of_their_keys_bytes_and_no_longer_key_is_found() -> None:
    run(
        joined(),
        rows("""
            T b 1|o 1  -> -
            T a 2|o 2  -> -
            T c 3|o1 3 -> -
            T aa 4|o 4 -> -
            S o e 5    -> o:e-2|o@5 o:e-4|o@5 o:e-1|o@5
        """),
    )


def test_k_07_all_results_have_the_records_time_and_headers() -> None:
    run(
        joined(),
        rows("""
            T d1 x|o1 1 t -> -
            T d2 y|o1 2   -> -
            S o1 e 3 s    -> o1:e-x|o1@3<h=s> o1:e-y|o1@3<h=s>
        """),
    )


@LEFT_AND_INNER
def test_k_08_with_grace_records_wait_for_rows_of_their_time(kind: str, column: int) -> None:
    vector = r"""
        S o1 e 3      | -               | -
        T d1 x\|o1 2  | -               | -
        S o9 q 5      | o1:e-x\|o1@3    | same
        S o1 late 2   | o1:late-x\|o1@2 | same
        S ~ null 9    | null:null-null@9 | - #dropped+1
        S o1 ~ 9      | - #dropped+1    | same
        S o8 r 7      | o9:q-null@5     | -
    """

    run(joined(kind, retention=1000, joined=Joined(grace=2)), columns(vector, column))


def test_waiting_records_come_out_at_the_end_of_input() -> None:
    with Scenario(joined(retention=1000, joined=Joined(grace=2))) as scenario:
        scenario.check(rows("""
            T d1 x|o1 2 -> -
            S o1 e 3    -> -
            S o1 f 2    -> -
        """))
        scenario.driver.end_of_input()

        assert scenario.driver.output_topic("out").read_all() == [Record("o1", "f-x|o1", 2), Record("o1", "e-x|o1", 3)]


def test_versions_with_one_timestamp_replace_each_other_in_the_index() -> None:
    run(
        joined(retention=1000),
        rows("""
            T d 1|a 5  -> -
            T d 2|b 5  -> -
            S a s 6    -> a:s-null@6
            S b s 6    -> b:s-2|b@6
            T d 3|c 2  -> -
            T d 4|a 2  -> -
            S c s 3    -> c:s-null@3
            S a s 4    -> a:s-4|a@4
            S a s 5    -> a:s-null@5
            T d ~ 5    -> -
            S b s 7    -> b:s-null@7
        """),
    )


def test_a_filtered_or_mapped_versioned_table_is_read_as_of_the_records_time_too() -> None:
    builder = StreamsBuilder()
    table = builder.table("T", materialized=Materialized.versioned("t", history_retention=1000))
    kept = table.map_values(lambda value: value.upper()).filter(lambda key, value: not value.startswith("-"))
    builder.stream("S").left_join(kept, dashed, table_foreign_key=after_bar).to("out")

    run(
        builder.build(),
        rows("""
            T d a|O 1   -> -
            T d -|O 5   -> -
            S O s 4     -> O:s-A|O@4
            S O s 5     -> O:s-null@5
            T d b|o 3   -> -
            S O s 3     -> O:s-B|O@3
            S O s 2     -> O:s-A|O@2
        """),
    )


def test_too_old_versions_are_refused_by_the_table_and_leave_the_index_alone() -> None:
    run(
        joined(retention=10),
        rows("""
            T d 1|o 100 -> -
            T e 2|o 89  -> - #dropped+1
            S o s 100   -> o:s-1|o@100
        """),
    )


def test_the_kips_positional_form_means_table_foreign_key() -> None:
    builder = StreamsBuilder()
    builder.stream("S").left_join(builder.table("T"), after_bar, dashed).to("out")

    run(
        builder.build(),
        rows("""
            T d 1|o 1 -> -
            S o s 2   -> o:s-1|o@2
        """),
    )


def test_the_extractor_may_take_the_rows_key_and_the_joiner_the_streams() -> None:
    builder = StreamsBuilder()
    builder.stream("S").join(
        builder.table("T"),
        lambda key, value, row: f"{key}/{value}/{row}",
        table_foreign_key=lambda key, row: key[0],
        foreign_key_with_key=True,
        with_key=True,
    ).to("out")

    run(
        builder.build(),
        rows("""
            T od 1 1 -> -
            S o s 2  -> o:o/s/1@2
        """),
    )


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_a_stream_whose_key_was_changed_is_routed_first_and_a_left_join_keeps_null_keys(kind: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("S").select_key(lambda key, value: None if value == "none" else value)
    join = stream.join if kind == "inner" else stream.left_join
    join(builder.table("T"), dashed, table_foreign_key=after_bar).to("out")

    with TopologyTestDriver(builder.build(), partitions=4) as driver:
        driver.input_topic("T").send("1|o", key="d", timestamp=1)
        driver.input_topic("S").send("o", key="x", timestamp=2)
        driver.input_topic("S").send("none", key="x", timestamp=3)

        found = driver.output_topic("out").read_all()
        unmatched = [] if kind == "inner" else [Record(None, "none-null", 3)]
        assert found == [Record("o", "o-1|o", 2), *unmatched]


def test_the_index_follows_the_streams_own_partitioner() -> None:
    builder = StreamsBuilder()

    def partitioner(key: str, value: Any, partitions: int) -> int:
        return ord(key[0]) % partitions

    from raystreams import Repartitioned

    stream = builder.stream("S").repartition(Repartitioned(partitioner=partitioner))
    stream.join(
        builder.table("T"), dashed, table_foreign_key=after_bar, table_joined=TableJoined(partitioner=partitioner)
    ).to("out")

    with TopologyTestDriver(builder.build(), partitions=3) as driver:
        for letter in "abcdef":
            driver.input_topic("T").send(f"1|{letter}", key=f"d{letter}", timestamp=1)
            driver.input_topic("S").send("s", key=letter, timestamp=2)

        assert driver.output_topic("out").read_values() == [f"s-1|{letter}" for letter in "abcdef"]


def test_k_09_what_can_not_be_joined_is_refused_at_the_call() -> None:
    builder = StreamsBuilder()
    stream, table, everywhere = builder.stream("S"), builder.table("T"), builder.global_table("G")
    kept = builder.table("V", materialized=Materialized.versioned("v", history_retention=10))

    with pytest.raises(ValueError, match="not both"):
        stream.join(table, dashed, table_foreign_key=after_bar, stream_foreign_key=after_bar)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="twice"):
        stream.left_join(table, after_bar, dashed, table_foreign_key=after_bar)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="no index"):
        stream.left_join(everywhere, dashed, table_foreign_key=after_bar)  # type: ignore[call-overload]
    for foreign_key in ("table_foreign_key", "stream_foreign_key"):
        options: dict[str, Any] = {foreign_key: after_bar}
        with pytest.raises(ValueError, match="versioned table"):
            stream.join(table, dashed, joined=Joined(grace=5), **options)
        with pytest.raises(ValueError, match="history_retention"):
            stream.join(kept, dashed, joined=Joined(grace=11), **options)
        with pytest.raises(ValueError, match="negative"):
            stream.join(kept, dashed, joined=Joined(grace=-1), **options)
        stream.join(kept, dashed, joined=Joined(grace=10), **options)


def test_names_follow_the_join() -> None:
    topology = joined(name="order-lines")

    assert [name for name in topology.nodes if name.startswith("order-lines")] == [
        "order-lines-index-registration-processor", "order-lines-index-registration-sink",
        "order-lines-index-registration-source", "order-lines-index-receive", "order-lines",
    ]  # fmt: skip
    assert list(topology.channels) == ["order-lines-index-registration-topic"]
    assert "order-lines-index-store" in topology.stores
    assert topology.unnamed_stateful == ("T-STATE-STORE-0000000001",)
