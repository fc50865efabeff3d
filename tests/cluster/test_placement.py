"""Which node has which task: exact places for exact nodes."""

from __future__ import annotations

import pytest
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.job_record import TaskNeeds
from raystreams.cluster.placement import Node, asked_of, balanced, room_for, roomiest, spread

ONE = TaskNeeds()


def nodes(**cpus: float) -> list[Node]:
    return [Node(id=id, free={"CPU": free}) for id, free in cpus.items()]


def test_a_task_asks_for_what_is_not_nothing() -> None:
    needs = TaskNeeds(num_cpus=0, memory=5, resources={"gpu": 2, "none": 0})

    assert asked_of(needs) == {"gpu": 2, "memory": 5}
    assert asked_of(ONE) == {"CPU": 1}


def test_there_is_room_where_all_that_is_asked_for_is_free_and_labels_are_equal() -> None:
    there = [
        Node(id="a", free={"CPU": 2, "gpu": 1}, labels={"zone": "x", "other": "1"}),
        Node(id="b", free={"CPU": 2, "gpu": 1}, labels={"zone": "y"}),
        Node(id="c", free={"CPU": 2}, labels={"zone": "x"}),
        Node(id="d", free={"CPU": 0.5, "gpu": 1}, labels={"zone": "x"}),
    ]
    needs = TaskNeeds(resources={"gpu": 1}, labels={"zone": "x"})

    assert [node.id for node in room_for(there, needs)] == ["a"]


def test_sums_of_fractions_are_not_held_against_a_node() -> None:
    left = Node(id="a", free={"CPU": 1 - 0.1 * 3 - 0.6})  # a little less than 0.1

    assert room_for([left], TaskNeeds(num_cpus=0.1)) == [left]


def test_the_roomiest_node_is_the_first_by_id_of_those_with_most_free() -> None:
    assert roomiest(nodes(a=1, c=3, b=3)) == nodes(b=3)[0]
    assert roomiest([]) is None


def test_tasks_are_spread_evenly_and_more_go_where_more_is_free() -> None:
    assert spread(nodes(a=4, b=4), [None] * 4, ONE) == ["a", "b", "a", "b"]
    assert spread(nodes(a=4, b=8), [None] * 3, ONE) == ["b", "a", "b"]
    assert spread(nodes(a=1, b=4), [None] * 4, ONE) == ["b", "a", "b", "b"]


def test_a_partition_with_state_goes_where_its_state_is() -> None:
    assert spread(nodes(a=4, b=4, c=4), [{"c"}, {"c", "b"}, None, {"c"}], ONE) == ["c", "b", "a", "c"]


def test_where_not_all_fit_the_error_says_what_is_asked_for_and_what_is_free() -> None:
    with pytest.raises(ConfigError) as raised:
        spread(nodes(a=1, b=0.5), [None] * 3, TaskNeeds(memory=512 << 20))
    with pytest.raises(ConfigError) as fits:
        spread(nodes(a=1, b=1), [None] * 3, ONE)
    with pytest.raises(ConfigError) as labels:
        spread([], [None], TaskNeeds(labels={"zone": "x"}))

    assert str(raised.value) == (
        "not enough resources: 3 tasks need 1 CPU, 512 MiB of memory each, and only 0 of them fit. Free are "
        "node a: 1 CPU, 0 MiB of memory; node b: 0.5 CPU, 0 MiB of memory. "
        "Add nodes, stop other jobs, or lower num_cpus, memory or resources under [cluster]"
    )
    assert "3 tasks need 1 CPU each, and only 2 of them fit. Free are node a: 1 CPU; node b: 1 CPU" in str(fits.value)
    assert "1 tasks need 1 CPU each on nodes labelled {'zone': 'x'}, and only 0 of them fit. Free are none" in str(labels.value)


def test_where_state_is_on_a_full_node_the_error_says_so() -> None:
    with pytest.raises(ConfigError, match=r"only 1 of them fit \(the state of partition 1 is on a\)"):
        spread(nodes(a=1, b=5), [{"a"}, {"a"}], ONE)


# ---- balanced


def test_nothing_moves_where_nodes_are_even() -> None:
    assert balanced(nodes(a=5, b=5), {0: "a", 1: "b", 2: "a"}, [], ONE) == {}


def test_as_few_move_as_make_nodes_even() -> None:
    assert balanced(nodes(a=5, b=5), {0: "a", 1: "a", 2: "a", 3: "a"}, [], ONE) == {3: "b", 2: "b"}
    assert balanced(nodes(a=5, b=5, c=5), {0: "a", 1: "a", 2: "a", 3: "b"}, [], ONE) == {2: "c"}


def test_what_does_not_fit_elsewhere_stays() -> None:
    assert balanced(nodes(a=5, b=1.5), dict.fromkeys(range(6), "a"), [], ONE) == {5: "b"}


def test_all_move_from_a_node_that_is_left() -> None:
    assert balanced(nodes(a=5, b=5, c=5), {0: "a", 1: "a", 2: "b"}, ["a"], ONE) == {1: "c", 0: "b"}


def test_those_on_a_node_that_is_left_go_first() -> None:
    owners = {0: "a", **dict.fromkeys(range(1, 6), "b")}

    assert balanced(nodes(a=5, b=5, c=1), owners, ["a"], ONE) == {0: "c"}


def test_nothing_moves_to_a_node_that_is_left() -> None:
    assert balanced(nodes(a=5, b=5), {0: "a", 1: "a"}, ["b"], ONE) == {}


def test_a_node_is_not_left_without_room_for_all_that_it_has() -> None:
    with pytest.raises(ConfigError, match=r"3 tasks need 1 CPU each, and only 2 of them fit\. Free are node b: 0 CPU"):
        balanced(nodes(a=5, b=1), {0: "a", 1: "a", 2: "b"}, ["a"], ONE)


def test_owners_on_nodes_that_are_gone_are_left_out() -> None:
    assert balanced(nodes(a=5, b=5), {0: "gone", 1: "a", 2: "a"}, [], ONE) == {2: "b"}
