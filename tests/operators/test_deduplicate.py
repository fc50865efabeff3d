"""`KStream.deduplicate`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raystreams import StreamsBuilder, Topology, TopologyTestDriver
from tests.operators.scenario import rows, run


def deduplicated(within: int, **options: Any) -> Topology:
    """The id is the value's first letter; `-` is none."""
    builder = StreamsBuilder()
    stream = builder.stream("S").deduplicate(lambda key, value: None if value == "-" else value[0], within=within, **options)
    stream.to("out")
    return builder.build()


def test_repeats_of_an_id_under_its_key_are_dropped() -> None:
    run(
        deduplicated(10),
        rows("""
            S k a1 0  -> k:a1@0
            S k a2 9  -> - #dropped+1
            S k b1 9  -> k:b1@9
            S j a3 9  -> j:a3@9
            S k a4 18 -> - #dropped+1
            S k a5 28 -> k:a5@28
        """),
    )


def test_records_out_of_order_are_repeats_of_later_ones_too() -> None:
    run(
        deduplicated(10),
        rows("""
            S k a1 30 -> k:a1@30
            S k a2 21 -> - #dropped+1
            S k a3 11 -> k:a3@11
            S k a4 11 -> - #dropped+1
        """),
    )


def test_a_record_too_late_to_be_known_passes() -> None:
    run(
        deduplicated(10),
        rows("""
            S k a1 0    -> k:a1@0
            S k b1 1000 -> k:b1@1000
            S k a1 0    -> k:a1@0
        """),
    )


def test_records_without_an_id_are_like_no_other_and_null_keys_are_compared() -> None:
    run(
        deduplicated(10),
        rows("""
            S k - 0  -> k:-@0
            S k - 0  -> k:-@0
            S ~ a1 1 -> null:a1@1
            S ~ a2 2 -> - #dropped+1
        """),
    )


def test_drops_are_counted_under_the_name_and_the_store_is_named_after_it() -> None:
    topology = deduplicated(10, name="once")
    with TopologyTestDriver(topology) as driver:
        for _ in range(3):
            driver.input_topic("S").send("a", key="k", timestamp=1)

        assert dict(driver.dropped) == {("once", "duplicate"): 2}
    assert list(topology.stores) == ["once-seen"]
    assert topology.unnamed_stateful == ()


def test_what_was_seen_is_known_after_a_crash() -> None:
    with TopologyTestDriver(deduplicated(10), auto_commit=False) as driver:
        driver.input_topic("S").send("a1", key="k", timestamp=1)
        driver.commit()
        driver.input_topic("S").send("a2", key="k", timestamp=2)
        driver.crash()
        driver.input_topic("S").send("a3", key="k", timestamp=3)
        driver.commit()

        assert driver.output_topic("out").read_values() == ["a1"]


def test_after_a_changed_key_records_meet_those_of_their_new_key() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("S").select_key(lambda key, value: value[1])
    stream.deduplicate(lambda key, value: value[0], within=10).to("out")

    with TopologyTestDriver(builder.build(), partitions=4) as driver:
        for key in "abcdef":
            driver.input_topic("S").send("xk", key=key, timestamp=1)

        assert driver.output_topic("out").read_values() == ["xk"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("kj"), st.sampled_from("ab"), st.integers(0, 20)), max_size=30))
def test_a_record_passes_if_none_was_seen_near_it(events: list[tuple[str, str, int]]) -> None:
    seen: list[tuple[str, str, int]] = []
    with TopologyTestDriver(deduplicated(15)) as driver:
        for key, id, time in events:
            driver.input_topic("S").send(id, key=key, timestamp=time)
            repeated = any(known[:2] == (key, id) and abs(known[2] - time) < 15 for known in seen)
            seen.append((key, id, time))

            assert driver.output_topic("out").read_values() == ([] if repeated else [id])


@pytest.mark.parametrize("within", [0, -1])
def test_within_must_be_positive(within: int) -> None:
    with pytest.raises(ValueError, match="within must be positive"):
        deduplicated(within)
