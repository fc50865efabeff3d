"""Names, numbers and checks of topologies (spec-runtime 6.2 to 6.4, vectors N)."""

from __future__ import annotations

import re
from functools import partial

import pytest

from raystreams import (
    Consumed,
    JoinWindows,
    Materialized,
    Record,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
)


def names(topology: Topology) -> list[str]:
    return list(topology.nodes)


def test_n1_a_count_without_names() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count()
    topology = builder.build()

    assert names(topology) == ["KSTREAM-SOURCE-0000000000", "KSTREAM-AGGREGATE-0000000002"]
    assert list(topology.stores) == ["KSTREAM-AGGREGATE-STATE-STORE-0000000001"]


def test_n2_a_named_store_burns_no_number_and_an_unnamed_materialized_one_more() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(materialized=Materialized.key_value("counts"))
    named = builder.build()
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(materialized=Materialized.key_value())
    anonymous = builder.build()

    assert (names(named)[1], list(named.stores)) == ("KSTREAM-AGGREGATE-0000000001", ["counts"])
    assert names(anonymous)[1] == "KSTREAM-AGGREGATE-0000000003"
    assert list(anonymous.stores) == ["KSTREAM-AGGREGATE-STATE-STORE-0000000002"]


def test_n3_a_table_that_is_grouped_and_counted() -> None:
    builder = StreamsBuilder()
    builder.table("in").group_by(lambda key, value: (value, value)).count()
    topology = builder.build()

    assert set(topology.stores) == {"in-STATE-STORE-0000000000", "KTABLE-AGGREGATE-STATE-STORE-0000000004"}
    # The ends of the channel are named after it; their numbers are burnt.
    assert names(topology)[:3] == ["KSTREAM-SOURCE-0000000001", "KTABLE-SOURCE-0000000002", "KTABLE-SELECT-0000000003"]
    assert names(topology)[-1] == "KTABLE-AGGREGATE-0000000007"
    assert list(topology.channels) == ["KTABLE-AGGREGATE-STATE-STORE-0000000004-repartition"]


def test_n4_a_windowed_cogroup() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.cogroup(lambda key, value, total: total).windowed_by(TimeWindows(10)).aggregate(int)
    topology = builder.build()

    assert names(topology)[1:] == ["COGROUPKSTREAM-AGGREGATE-0000000002", "COGROUPKSTREAM-MERGE-0000000003"]
    assert list(topology.stores) == ["COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000001"]


def test_n5_a_join_of_two_streams() -> None:
    builder = StreamsBuilder()
    builder.stream("a").join(builder.stream("b"), lambda left, right: left, windows=JoinWindows.of(10))
    topology = builder.build()

    assert sorted(names(topology)[2:], key=lambda name: name[-10:]) == [
        "KSTREAM-WINDOWED-0000000002", "KSTREAM-WINDOWED-0000000003", "KSTREAM-JOINTHIS-0000000004",
        "KSTREAM-JOINOTHER-0000000005", "KSTREAM-MERGE-0000000006",
    ]  # fmt: skip
    assert set(topology.stores) == {"KSTREAM-JOINTHIS-0000000004-store", "KSTREAM-JOINOTHER-0000000005-store"}


def test_n6_a_suppress_and_its_store() -> None:
    def stores(name: str | None) -> list[str]:
        builder = StreamsBuilder()
        counted = builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count()
        counted.suppress(Suppressed.until_window_closes(), name=name)
        topology = builder.build()
        return [names(topology)[-1], list(topology.stores)[-1]]

    assert stores("myname") == ["myname", "myname-store"]
    assert stores(None) == ["KTABLE-SUPPRESS-0000000003", "KTABLE-SUPPRESS-STATE-STORE-0000000004"]


def test_n7_branches_are_named_after_their_split_and_numbered_without_a_name() -> None:
    builder = StreamsBuilder()
    split = builder.stream("in").split(name="branch-processor")
    split.branch(lambda key, value: value == 1, name="-1").branch(lambda key, value: value == 2)
    made = split.default_branch()

    assert list(made) == ["branch-processor-1", "branch-processor2", "branch-processor0"]
    assert names(builder.build())[1:] == ["branch-processor", *made]


def test_n8_a_group_name_belongs_to_one_stream_and_gives_one_channel() -> None:
    builder = StreamsBuilder()
    rekeyed = builder.stream("in").select_key(lambda key, value: value)
    grouped = rekeyed.group_by_key(name="by-value")
    grouped.count(name="one")
    grouped.count(name="two")
    assert list(builder.build().channels) == ["by-value-repartition"]

    other = rekeyed.map(lambda key, value: (value, key)).group_by_key(name="by-value")
    with pytest.raises(TopologyError, match="by-value"):
        other.count()


def test_n9_each_aggregation_below_a_changed_key_has_its_own_channel() -> None:
    builder = StreamsBuilder()
    rekeyed = builder.stream("in").select_key(lambda key, value: value)
    for _ in range(4):
        rekeyed.group_by_key().count()

    assert len(builder.build().channels) == 4


def test_n10_a_topic_is_read_once_and_shared() -> None:
    builder = StreamsBuilder()
    for suffix in "12":
        builder.stream("in").map_values(partial("{1}{0}".format, suffix)).to("out")
    topology = builder.build()

    assert len(topology.sources) == 1
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").send("x", key="k", timestamp=1)
        assert driver.output_topic("out").read_values() == ["x1", "x2"]
    with pytest.raises(TopologyError, match="different settings"):
        builder.stream("in", consumed=Consumed(offset_reset="latest"))
    with pytest.raises(TopologyError, match="already read"):
        builder.stream(["in", "other"])
    with pytest.raises(TopologyError, match="already read"):
        builder.table("in")
    builder.table("table")
    with pytest.raises(TopologyError, match="already read"):
        builder.table("table")
    with pytest.raises(TopologyError, match="already read"):
        builder.stream("table")


def test_n11_all_outputs_of_an_input_come_before_what_follows_from_them() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("loop")
    looped = builder.stream("loop")
    looped.to("out")
    looped.filter(lambda key, value: not value.startswith("again")).map_values(lambda value: f"again {value}").to("loop")

    with TopologyTestDriver(builder.build()) as driver:
        driver.input_topic("in").send("beta", key="k", timestamp=1)

        assert driver.output_topic("out").read_all() == [Record("k", "beta", 1), Record("k", "again beta", 1)]


def test_a_given_name_still_burns_the_number_that_it_replaces() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", name="source")
    for name in ("filter", None, "map"):
        stream = stream.map_values(str, name=name)

    assert names(builder.build()) == ["source", "filter", "KSTREAM-MAPVALUES-0000000002", "map"]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250])
def test_names_are_letters_digits_dots_and_dashes(name: str) -> None:
    stream = StreamsBuilder().stream("in")

    with pytest.raises(TopologyError, match="can't name"):
        stream.peek(print, name=name)
    with pytest.raises(TopologyError, match="can't name"):
        stream.to(name)


def test_two_operators_can_not_have_one_name() -> None:
    stream = StreamsBuilder().stream("in")
    stream.peek(print, name="twice")

    with pytest.raises(TopologyError, match=re.escape("two operators are named 'twice'")):
        stream.peek(print, name="twice")
