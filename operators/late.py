"""Records that are too late for their windows: counted, and kept aside in a topic if the user wants them."""

from __future__ import annotations

from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.graph import TopicSink
from raystreams.operators.options import Topic, check_name
from raystreams.operators.record import Headers, Process
from raystreams.stores.serdes import KeySerde, Serde, key_serde, value_serde


def late_sink(topic: str | Topic[Any, Any] | None, key: KeySerde[Any], value: Serde[Any]) -> TopicSink | None:
    """Where late records go, with the types of the topic, or of the stream."""
    if topic is None:
        return None
    if isinstance(topic, Topic):
        return TopicSink(
            topic=topic.name,
            key=key_serde(topic.key) if topic.key is not None else key,
            value=value_serde(topic.value) if topic.value is not None else value,
        )
    return TopicSink(topic=check_name(topic, "topic"), key=key, value=value)


def late_output(node: NodeRuntime, sink: TopicSink | None) -> Process:
    """The function that takes late records; those of a topic that the topology reads too go there as well."""
    if sink is None:
        return _nowhere
    assert isinstance(sink.topic, str)
    write, read_again = node.sink(sink.topic, sink), node.children.get(late_channel_sink(node.name))
    if read_again is None:
        return write

    def late(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        write(key, value, timestamp, headers)
        read_again(key, value, timestamp, headers)

    return late


def late_channel_sink(node: str) -> str:
    """The name of the node that sends a node's late records to whoever reads their topic in the same topology."""
    return f"{node}-late-channel"


def _nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    return None


