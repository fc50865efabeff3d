"""`cogroup`: several streams into one table, each with its own aggregator (KIP-150, spec-runtime 4.2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import (
    CogroupedKStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)
from tests.operators.aggregation_texts import concatenated, drops, empty, inputs, merged, minus, plus, read, send, sent, zero
from tests.operators.runtime_vectors import grouped


def out(builder: StreamsBuilder, table: KTable[Any, Any]) -> Topology:
    table.to_stream().to("out")
    return builder.build()


def two_inputs(builder: StreamsBuilder) -> CogroupedKStream[Any, Any]:
    """What comes on `one` is added, what comes on `two` is taken away."""
    return grouped(builder, "one").cogroup(plus).cogroup(grouped(builder, "two"), minus)


def by_value(builder: StreamsBuilder, topic: str) -> Any:
    return builder.stream(topic).group_by(lambda key, value: value[0], key=str)


def test_all_inputs_share_a_row() -> None:
    builder = StreamsBuilder()
    with TopologyTestDriver(out(builder, two_inputs(builder).aggregate(zero, name="both"))) as driver:
        send(driver, "k:a@1", "one")
        send(driver, "k:b@5", "two")
        send(driver, "k:c@3", "one")

        assert read(driver) == "k=0+a@1 k=0+a-b@5 k=0+a-b+c@5"
        assert driver.store("both").get("k") == "0+a-b+c"


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("name", [None, "both"])
def test_each_input_whose_key_was_changed_is_routed_on_its_own(name: str | None, partitions: int) -> None:
    builder = StreamsBuilder()
    cogrouped = by_value(builder, "one").cogroup(plus).cogroup(by_value(builder, "two"), minus)
    topology = out(builder, cogrouped.cogroup(grouped(builder, "three"), plus).aggregate(zero, name=name))
    with TopologyTestDriver(topology, partitions=partitions) as driver:
        send(driver, "1:ka@1 2:ja@2", "one")
        send(driver, "3:kb@3", "two")
        send(driver, "k:c@4 j:c@5", "three")

        assert len(topology.channels) == 2
        assert sorted(read(driver).split()) == ["j=0+ja+c@5", "j=0+ja@2", "k=0+ka-kb+c@4", "k=0+ka-kb@3", "k=0+ka@1"]


def test_a_group_with_a_name_is_routed_once_for_all_that_use_it() -> None:
    builder = StreamsBuilder()
    shared = builder.stream("one").group_by(lambda key, value: value, key=str, name="shared")
    shared.count(name="counts")
    topology = out(builder, shared.cogroup(plus).aggregate(zero, name="texts"))

    assert list(topology.channels) == ["shared-repartition"]


def test_a_stream_that_is_given_again_gets_the_new_aggregator_in_its_old_place() -> None:
    builder = StreamsBuilder()
    first, second = grouped(builder, "one"), grouped(builder, "two")
    cogrouped = first.cogroup(minus).cogroup(second, plus).cogroup(first, concatenated)
    with TopologyTestDriver(out(builder, cogrouped.aggregate(empty, name="both"))) as driver:
        send(driver, "k:a@1", "one")
        send(driver, "k:b@2", "two")

        assert read(driver) == "k=a@1 k=a+b@2"
        assert [name for name in driver.topology.nodes if "agg" in name] == ["both-cogroup-agg-0", "both-cogroup-agg-1"]


def test_none_from_any_aggregator_deletes_the_row() -> None:
    builder = StreamsBuilder()
    cogrouped = grouped(builder, "one").cogroup(plus).cogroup(grouped(builder, "two"), lambda key, value, aggregate: None)
    with TopologyTestDriver(out(builder, cogrouped.aggregate(zero))) as driver:
        send(driver, "k:a@1", "one")
        send(driver, "k:stop@2", "two")
        send(driver, "k:b@3", "one")

        assert read(driver) == "k=0+a@1 k=null@2 k=0+b@3"


def test_records_without_key_or_value_are_dropped_under_the_name() -> None:
    builder = StreamsBuilder()
    with TopologyTestDriver(out(builder, two_inputs(builder).aggregate(zero, name="both"))) as driver:
        send(driver, "null:a@1 k:null@1", "one")
        send(driver, "null:a@1", "two")

        assert read(driver) == ""
        assert driver.dropped == {("both", "null key"): 2, ("both", "null value"): 1}


def test_a_group_below_is_told_what_a_row_was_whichever_input_changed_it() -> None:
    builder = StreamsBuilder()
    table = two_inputs(builder).aggregate(zero, name="both")
    counts = table.group_by(lambda key, text: (text[-1], text)).count(name="counts")
    with TopologyTestDriver(out(builder, counts)) as driver:
        send(driver, "k:a@1", "one")
        send(driver, "j:a@2", "one")
        send(driver, "k:b@3", "two")

        # The first old value of a row is the initial one, as in Kafka Streams: nothing is taken out of a group that is not there.
        assert read(driver) == "0=null@1 a=1@1 0=null@2 a=2@2 a=1@3 b=1@3"
        assert dict(driver.store("counts").all()) == {"a": 1, "b": 1}


def test_the_result_can_be_joined() -> None:
    builder = StreamsBuilder()
    table = two_inputs(builder).aggregate(zero, name="both")
    builder.stream("in").join(table, lambda value, text: f"{value}:{text}").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        send(driver, "k:a@1", "one")
        send(driver, "k:b@2", "two")

        assert sent(driver, "k:x@3 j:x@3") == "k=x:0+a-b@3"


def test_each_input_has_a_clock_of_its_own() -> None:
    builder = StreamsBuilder()
    table = two_inputs(builder).windowed_by(TimeWindows(10)).aggregate(zero, name="both", materialized=_long_window())
    with TopologyTestDriver(out(builder, table)) as driver:
        send(driver, "k:a@25", "one")
        send(driver, "k:b@5", "two")  # the first that this input sees
        send(driver, "k:c@6", "one")

        assert read(driver) == "k[20,30)=0+a@25 k[0,10)=0-b@5"
        assert driver.dropped == {("both", "late"): 1}


def _long_window() -> Materialized[Any, Any]:
    return Materialized.window(retention=1000)


@pytest.mark.parametrize(
    ("windows", "wanted"),
    [
        (TimeWindows(10), "k[0,10)=0+a@1 k[0,10)=0+a-b@4"),
        (SlidingWindows(10), "k[0,10)=0+a@1 k[2,12)=0-b@4 k[0,10)=0+a-b@4"),
    ],
)
def test_inputs_share_the_rows_of_windows(windows: Any, wanted: str) -> None:
    builder = StreamsBuilder()
    with TopologyTestDriver(out(builder, two_inputs(builder).windowed_by(windows).aggregate(zero))) as driver:
        send(driver, "k:a@1", "one")
        send(driver, "k:b@4", "two")

        assert read(driver) == wanted


def test_inputs_merge_sessions_of_one_another() -> None:
    builder = StreamsBuilder()
    table = two_inputs(builder).windowed_by(SessionWindows(5, grace=50)).aggregate(zero, merged)
    with TopologyTestDriver(out(builder, table)) as driver:
        send(driver, "k:a@1", "one")
        send(driver, "k:b@9", "one")
        send(driver, "k:c@5", "two")

        assert read(driver, closed=True) == (
            "k[1,1]=0+a@1 k[9,9]=0+b@9 k[1,1]=null@1 k[9,9]=null@9 k[1,9]=0+0+a+0+b-c@9"
        )


def test_what_makes_no_sense_is_refused_where_it_is_said() -> None:
    builder = StreamsBuilder()
    cogrouped = two_inputs(builder)

    with pytest.raises(TypeError, match="takes a grouped stream"):
        cogrouped.cogroup(builder.stream("in"), plus)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="aggregator must be callable"):
        cogrouped.cogroup(grouped(builder), "plus")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="same StreamsBuilder"):
        cogrouped.cogroup(grouped(StreamsBuilder()), plus)
    with pytest.raises(TypeError, match="merger must be callable"):
        cogrouped.windowed_by(SessionWindows(5)).aggregate(zero)
    with pytest.raises(ValueError, match="only sessions are merged"):
        cogrouped.windowed_by(TimeWindows(5)).aggregate(zero, merged)
    with pytest.raises(TypeError, match="takes windows"):
        cogrouped.windowed_by(5)  # type: ignore[arg-type]  # the mistake


def test_a_cogroup_can_only_emit_on_update() -> None:
    assert not hasattr(two_inputs(StreamsBuilder()).windowed_by(TimeWindows(5)), "emit_strategy")


INPUTS = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.sampled_from("ab"), st.integers(0, 30)), max_size=15)


@given(records=INPUTS)
@settings(max_examples=25, deadline=None)
def test_cogrouped_streams_equal_their_merge_grouped(records: list[tuple[str, str, int]]) -> None:
    def signed(key: str, value: tuple[str, str], aggregate: str) -> str:
        return (plus if value[0] == "one" else minus)(key, value[1], aggregate)

    results = []
    for cogroups in (True, False):
        builder = StreamsBuilder()
        if cogroups:
            table = two_inputs(builder).aggregate(zero)
        else:
            one = builder.stream("one").map_values(lambda value: ("one", value))
            two = builder.stream("two").map_values(lambda value: ("two", value))
            table = one.merge(two).group_by_key().aggregate(zero, signed)
        with TopologyTestDriver(out(builder, table)) as driver:
            for number, (topic, key, time) in enumerate(records):
                driver.input_topic(topic).send(str(number), key=key, timestamp=time)
            results.append((read(driver), drops(driver)))

    assert results[0] == results[1]


def test_windowed_keys_come_out_typed() -> None:
    builder = StreamsBuilder()
    table = two_inputs(builder).windowed_by(TimeWindows(10)).aggregate(zero)
    with TopologyTestDriver(out(builder, table)) as driver:
        for key, value, time in inputs("k:a@12"):
            driver.input_topic("one").send(value, key=key, timestamp=time)

        assert [r.key for r in driver.output_topic("out").read_all()] == [Windowed("k", 10, 20)]
