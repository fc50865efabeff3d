"""What a task knows of its peers, packet by packet: meeting, loss, repeats, gaps, incarnations, and commits that were lost."""

from __future__ import annotations

import pytest
from raystreams.cluster.exchange import LostCommitsError
from raystreams.cluster.links import PACKET_BYTES, FencedError, Reply, decode_packet, decode_reply, encode

from tests.cluster.pairs import HERE, THERE, Pair, copy_of, key_of, runs_of, without_first_run, written


def met() -> Pair:
    pair = Pair()
    pair.exchange()
    return pair


def channel_of(pair: Pair) -> str:
    (name,) = pair.topology.channels
    return name


def test_nothing_new_is_sent_before_the_peer_has_said_what_it_has() -> None:
    pair = Pair()
    pair.commit(THERE)
    before = [pair.due(0)]
    pair.deliver(before[0])
    pair.commit(THERE)
    before.append(pair.due(0))
    pair.deliver(before[1])
    pair.deliver(pair.due(1))

    assert [runs_of(packet) for packet in before] == [[], []]
    assert runs_of(pair.due(0)) == [(1, 1), (2, 1)]


def test_one_packet_is_on_its_way_to_a_peer() -> None:
    pair = met()
    pair.commit(THERE)
    packet = pair.due(0)
    pair.commit(THERE, THERE)
    meanwhile = pair.links[0].due()
    was_quiet = pair.links[0].are_quiet
    pair.deliver(packet)

    assert (runs_of(packet), meanwhile, was_quiet) == ([(1, 1)], [], False)
    assert pair.links[0].are_quiet
    assert runs_of(pair.due(0)) == [(2, 2)]


def test_nothing_is_due_when_the_peer_was_told_everything() -> None:
    pair = met()
    pair.commit(HERE)
    pair.exchange()

    assert [links.due() for links in pair.links] == [[], []]


def test_a_lost_packet_is_sent_again() -> None:
    pair = met()
    pair.commit(THERE)
    packet = pair.due(0)
    pair.links[0].lost(packet)

    assert runs_of(pair.due(0)) == [(1, 1)]
    assert pair.links[0].taken_by_peers() == {}


def test_a_lost_reply_changes_nothing_but_that_the_packet_comes_again() -> None:
    pair = met()
    pair.commit(THERE, THERE)
    packet = pair.due(0)
    first = pair.links[1].receive(packet)
    pair.links[0].lost(packet)
    again = pair.due(0)
    second = pair.links[1].receive(again)

    assert again == packet
    assert first == (Reply("taken", {channel_of(pair): 3}), True)
    assert second == (Reply("taken", {channel_of(pair): 3}), False)
    assert written(pair.step(1)) == [(THERE, 1), (THERE, 2)]


def test_a_gap_is_refused_and_what_is_missing_comes_again() -> None:
    pair = met()
    pair.commit(THERE)
    pair.commit(THERE, THERE)
    packet = pair.due(0)
    reply, new = pair.links[1].receive(without_first_run(packet))
    pair.links[0].answered(packet, reply)

    assert (runs_of(packet), reply.expected, new) == ([(1, 1), (2, 2)], {channel_of(pair): 1}, False)
    assert runs_of(pair.due(0)) == [(1, 1), (2, 2)]


def test_the_next_packet_begins_where_the_reply_says() -> None:
    pair = met()
    pair.commit(THERE)
    pair.commit(THERE)
    pair.links[0].answered(pair.due(0), Reply("taken", {channel_of(pair): 2}))

    assert runs_of(pair.due(0)) == [(2, 1)]


def test_a_fenced_reply_ends_the_sender() -> None:
    pair = met()
    pair.commit(THERE)

    with pytest.raises(FencedError):
        pair.links[0].answered(pair.due(0), Reply("fenced"))


def test_a_packet_of_an_older_incarnation_than_was_met_is_fenced() -> None:
    pair = met()
    pair.commit(THERE)
    late = pair.due(0)
    pair.crash(0)
    pair.deliver(pair.due(0))
    reply = pair.links[1].receive(late)

    assert reply == (Reply("fenced"), False)
    assert pair.tasks[1].waiting == 0


def test_a_packet_of_an_older_incarnation_than_the_manager_names_is_fenced() -> None:
    pair = met()
    pair.commit(THERE)
    late = pair.due(0)
    pair.links[1].know({0: 2})

    assert pair.links[1].receive(late) == (Reply("fenced"), False)
    assert pair.tasks[1].waiting == 0


def test_an_older_incarnation_than_known_is_not_believed() -> None:
    pair = met()
    pair.links[0].know({1: 7})
    pair.links[0].know({1: 6, 0: 99})

    assert pair.links[0].epoch_of(1) == 7


def test_who_is_meant_as_a_later_incarnation_is_of_the_past() -> None:
    pair = met()
    pair.links[0].know({1: 2})
    packet = pair.due(0)

    with pytest.raises(FencedError):
        pair.links[1].receive(packet)


def test_a_packet_for_an_older_incarnation_is_elsewhere_and_the_sender_waits_to_be_told() -> None:
    pair = met()
    pair.commit(THERE)
    packet = pair.due(0)
    pair.crash(1)
    reply = pair.deliver(packet)
    waiting = pair.links[0].due()
    pair.tell(0)

    assert (reply, waiting) == (Reply("elsewhere"), [])
    assert pair.tasks[1].waiting == 0
    assert pair.due(0).receiver_epoch == 2


def test_an_incarnation_that_was_not_ready_is_asked_again_when_it_is_named_again() -> None:
    """A standby that hears of its promotion later than its peers do is elsewhere for so long."""
    pair = met()
    pair.commit(THERE)
    pair.links[0].answered(pair.due(0), Reply("elsewhere"))
    waiting = pair.links[0].due()
    pair.tell(0)

    assert (waiting, runs_of(pair.due(0))) == ([], [(1, 1)])


def test_a_late_reply_of_an_older_incarnation_says_nothing_of_the_new_one() -> None:
    pair = met()
    pair.commit(THERE)
    packet = pair.due(0)
    reply, _ = pair.links[1].receive(packet)
    pair.crash(1)
    pair.tell(0)
    new = pair.due(0)
    pair.links[0].answered(packet, reply)
    pair.links[0].lost(packet)

    assert runs_of(new) == [(1, 1)]
    assert pair.links[0].due() == [] and not pair.links[0].are_quiet
    assert pair.links[0].taken_by_peers() == {}


def test_a_peer_that_comes_back_gets_what_it_had_not_committed() -> None:
    pair = met()
    pair.commit(THERE)
    pair.exchange()
    pair.step(1)
    pair.commit(THERE, THERE)
    pair.exchange()
    pair.crash(1)
    pair.tell(0)
    again = pair.due(0)
    pair.deliver(again)
    pair.exchange()

    assert runs_of(again) == [(2, 2)]
    assert written(pair.step(1)) == [(THERE, 2), (THERE, 3)]
    assert pair.links[0].taken_by_peers() == {1: 5}


def test_a_sender_that_comes_back_sends_what_its_peer_lacks() -> None:
    pair = met()
    pair.commit(THERE)
    pair.exchange()
    pair.commit(THERE)
    pair.crash(0)
    pair.tell(1)
    pair.exchange()

    assert written(pair.step(1)) == [(THERE, 1), (THERE, 2)]


def test_a_packet_ends_with_the_run_that_makes_it_large_enough() -> None:
    pair = met()
    large = key_of(1, prefix="x" * (PACKET_BYTES // 4))
    for _ in range(3):
        pair.commit(large)
    packets = []
    while pair.links[0].are_quiet and (due := pair.links[0].due()):
        packets.append(runs_of(due[0]))
        pair.deliver(due[0])

    assert packets == [[(1, 1), (2, 1)], [(3, 1)]]


def test_a_receiver_that_fell_back_is_named() -> None:
    pair = met()
    old = copy_of(pair.engines[1])
    pair.commit(THERE, THERE)
    pair.exchange()
    pair.step(1)
    pair.exchange()
    pair.crash(1, old)

    with pytest.raises(LostCommitsError, match=r"task 1 has lost commits: .* had committed up to 2, and now has 0"):
        pair.deliver(pair.due(1))


def test_a_sender_that_fell_back_is_named_though_it_has_given_the_numbers_to_other_records() -> None:
    pair = met()
    old = copy_of(pair.engines[0])
    pair.commit(THERE, THERE)
    pair.exchange()
    pair.step(1)
    pair.crash(0, old)
    pair.tell(1)
    pair.commit(THERE, THERE, THERE)

    with pytest.raises(LostCommitsError, match=r"task 0 has lost commits: .* has sent up to 0, its peer has 2"):
        pair.exchange()


def test_packets_and_replies_survive_the_way() -> None:
    pair = met()
    pair.commit(THERE)
    packet = pair.due(0)
    reply = Reply("taken", {"a": 2})

    assert decode_packet(encode(packet)) == packet
    assert decode_reply(encode(reply)) == reply
