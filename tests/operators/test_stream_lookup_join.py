"""A stream joined with the rows that its values point at (spec-joins 9.6, vectors K-10 to K-12)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from raystreams import Joined, Materialized, Record, StreamsBuilder, TopologyTestDriver
from tests.operators.foreign_keys import LEFT_AND_INNER, of_stream
from tests.operators.scenario import Scenario, after_bar, columns, dashed, rows, run

joined = partial(of_stream, "stream_foreign_key")


@LEFT_AND_INNER
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_k_10_and_11(kind: str, column: int, partitions: int) -> None:
    vector = r"""
        T f1 g1 1      | -                      | -
        S k a\|f1 5 h  | k:a\|f1-g1@5<h=h>      | same
        S k b\|f2 6    | k:b\|f2-null@6         | -
        S k c\|~ 7     | k:c\|~-null@7          | - #dropped+1
        T f1 g2 4      | -                      | -
        S k d\|f1 3    | k:d\|f1-g1@3           | same
        S k e\|f1 8    | k:e\|f1-g2@8           | same
        S ~ z\|f1 9    | null:z\|f1-g2@9        | same
        S k ~ 10       | - #dropped+1           | same
    """

    run(joined(kind, retention=1000), columns(vector, column), partitions=partitions)


def test_k_12_the_two_readings_of_one_pair_of_inputs() -> None:
    def outputs(side: str) -> list[tuple[Any, Any, int]]:
        builder = StreamsBuilder()
        options: dict[str, Any] = {side: after_bar}
        builder.stream("S").left_join(builder.table("T"), dashed, **options).to("out")
        with Scenario(builder.build()) as scenario:
            for line in ("T x 1|o 1", "S o v|x 2", "S p v|x 3", "S o v|y 4"):
                scenario.send(line)
            return [(r.key, r.value, r.timestamp) for r in scenario.driver.output_topic("out").read_all()]

    assert outputs("table_foreign_key") == [("o", "v|x-1|o", 2), ("p", "v|x-null", 3), ("o", "v|y-1|o", 4)]
    assert outputs("stream_foreign_key") == [("o", "v|x-1|o", 2), ("p", "v|x-1|o", 3), ("o", "v|y-null", 4)]


def test_an_unversioned_table_is_read_as_it_is_now() -> None:
    run(
        joined(),
        rows("""
            T f new 9   -> -
            S k a|f 5   -> k:a|f-new@5
            T f ~ 10    -> -
            S k b|f 20  -> k:b|f-null@20
            T f x 30    -> -
        """),
    )


@LEFT_AND_INNER
def test_with_grace_records_wait_at_home_and_null_foreign_keys_do_not(kind: str, column: int) -> None:
    vector = r"""
        S k a\|f 3    | -                 | -
        S k b\|~ 3    | k:b\|~-null@3     | - #dropped+1
        S ~ c\|f 3    | -                 | -
        T f g 2       | -                 | -
        S k d\|q 5    | null:c\|f-g@3 k:a\|f-g@3 | same
        S k late\|f 2 | k:late\|f-g@2     | same
        S k e\|f 7    | k:d\|q-null@5     | -
    """

    run(joined(kind, retention=1000, joined=Joined(grace=2)), columns(vector, column))


@pytest.mark.parametrize("partitions", [1, 3])
def test_waiting_records_are_asked_for_at_the_end_of_input(partitions: int) -> None:
    with Scenario(joined(retention=1000, joined=Joined(grace=5)), partitions=partitions) as scenario:
        scenario.check(rows("""
            T f g 2     -> -
            S k a|f 3   -> -
        """))
        scenario.driver.end_of_input()

        assert scenario.driver.output_topic("out").read_all() == [Record("k", "a|f-g", 3)]


def test_results_come_in_the_order_of_the_stream_whatever_partition_answers() -> None:
    with TopologyTestDriver(joined(), partitions=5) as driver:
        for n in range(20):
            driver.input_topic("T").send(f"r{n}", key=f"f{n}", timestamp=n)
        values = [f"{n}|f{n * 7 % 20}" if n % 3 else f"{n}|~" for n in range(40)]
        for n, value in enumerate(values):
            driver.input_topic("S").send(value, key="k", timestamp=100 + n)

        found = driver.output_topic("out").read_all()
        rows_of = {f"f{n}": f"r{n}" for n in range(20)}
        assert found == [
            Record("k", dashed(value, rows_of.get(value.split("|")[1])), 100 + n) for n, value in enumerate(values)
        ]


@pytest.mark.parametrize("partitions", [1, 3])
def test_open_requests_survive_a_crash_and_no_record_is_joined_twice(partitions: int) -> None:
    with TopologyTestDriver(joined(), partitions=partitions, auto_commit=False) as driver:
        for n in range(4):
            driver.input_topic("T").send(f"r{n}", key=f"f{n}", timestamp=0)
        driver.commit()
        for n in range(12):
            driver.input_topic("S").send(f"{n}|f{n % 5}" if n % 3 else f"{n}|~", key="k", timestamp=n)
            if n % 4 == 1:
                driver.commit()
            if n % 2:
                driver.crash()
        driver.commit()

        found = driver.output_topic("out").read_all()
        wanted = [f"{n}|f{n % 5}-r{n % 5}" if n % 5 < 4 else f"{n}|f4-null" for n in range(12)]
        assert found == [Record("k", wanted[n] if n % 3 else f"{n}|~-null", n) for n in range(12)]


def test_no_open_request_is_left_in_the_store() -> None:
    with TopologyTestDriver(joined(name="j")) as driver:
        driver.input_topic("S").send("a|f", key="k", timestamp=1)
        driver.input_topic("S").send("b|~", key="k", timestamp=2)

        with driver.store("j-requests").all() as requests:
            assert list(requests) == []


def test_the_key_is_that_of_the_stream_and_its_routing_is_kept() -> None:
    builder = StreamsBuilder()
    builder.stream("S").join(
        builder.table("T"),
        lambda key, value, row: f"{key}/{value}/{row}",
        stream_foreign_key=lambda key, value: key[0],
        foreign_key_with_key=True,
        with_key=True,
    ).group_by_key().count().to_stream().to("out")
    topology = builder.build()

    assert not any("repartition" in channel for channel in topology.channels)
    with TopologyTestDriver(topology, partitions=3) as driver:
        driver.input_topic("T").send("r", key="a", timestamp=1)
        for key in ("ab", "ac", "ab"):
            driver.input_topic("S").send("v", key=key, timestamp=2)

        assert driver.output_topic("out").read_table() == {"ab": 2, "ac": 1}


def test_names_follow_the_join_and_count_its_drops() -> None:
    topology = joined("inner", name="order-user", retention=10, joined=Joined(grace=1))

    assert [name for name in topology.nodes if name.startswith("order-user")] == [
        "order-user-request", "order-user-request-sink", "order-user-request-source", "order-user-lookup",
        "order-user-response-sink", "order-user-response-source", "order-user",
    ]  # fmt: skip
    assert [(c.name, c.feedback) for c in topology.channels.values()] == [
        ("order-user-request-topic", False), ("order-user-response-topic", True)
    ]  # fmt: skip
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("S").send("a|~", key="k", timestamp=1)

        assert dict(driver.dropped) == {("order-user", "null foreign key"): 1}
    assert topology.unnamed_stateful == ()


@pytest.mark.parametrize("partitions", [1, 3])
def test_at_the_end_of_input_a_second_join_still_asks_for_what_the_first_one_let_out(partitions: int) -> None:
    builder = StreamsBuilder()
    table = builder.table("T", materialized=Materialized.versioned("t", history_retention=1000))
    stream = builder.stream("S")
    for _ in range(3):
        stream = stream.join(
            table, lambda value, row: f"{value}+{row}", stream_foreign_key=lambda value: "f", joined=Joined(grace=5)
        )
    stream.to("out")

    with TopologyTestDriver(builder.build(), partitions=partitions) as driver:
        driver.input_topic("T").send("r", key="f", timestamp=0)
        driver.input_topic("S").send("s", key="k", timestamp=1)
        driver.end_of_input()

        assert driver.output_topic("out").read_values() == ["s+r+r+r"]
