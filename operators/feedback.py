"""Which channels depend on their receiver's own output, and so may never hold it back (design: section 6, Order).

A foreign-key join marks its response channel itself. What is left are topics that a topology both writes and reads: a
channel is feedback if its sender can be reached from its receiver over channels that are not. Without this rule a receiver
would wait for a record that only its own next output can bring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from raystreams.operators.graph import Channel, ChannelSink, Topology


def with_feedback(topology: Topology) -> Mapping[str, Channel]:
    """The topology's channels, with `feedback` set on those that close a loop."""
    part_of = topology.sub_topology_of
    senders: dict[str, set[int]] = {name: set() for name in topology.channels}
    for node in topology.nodes.values():
        if isinstance(node.operator, ChannelSink):
            senders[node.operator.channel].add(part_of[node.name])
    next_parts: dict[int, set[int]] = {}
    for channel in topology.channels.values():
        if not channel.feedback:
            for sender in senders[channel.name]:
                next_parts.setdefault(sender, set()).add(part_of[channel.source])
    return {
        name: dataclasses.replace(
            channel, feedback=channel.feedback or bool(senders[name] & _reachable(part_of[channel.source], next_parts))
        )
        for name, channel in topology.channels.items()
    }


def _reachable(start: int, next_parts: Mapping[int, set[int]]) -> set[int]:
    reached, waiting = {start}, [start]
    while waiting:
        for part in next_parts.get(waiting.pop(), ()):
            if part not in reached:
                reached.add(part)
                waiting.append(part)
    return reached
