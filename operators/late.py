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
    """The function that takes late records."""
    if sink is None:
        return _nowhere
    assert isinstance(sink.topic, str)
    return node.sink(sink.topic, sink)


def _nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    return None


