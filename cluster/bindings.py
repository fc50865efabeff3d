"""Topics meet sources and sinks: everything that a topology reads or writes outside must be bound, and to something that fits.

A topic that is both written and read inside needs no binding. What is wrong is found before anything is read: unbound topics
(all of them at once), bindings of topics that there aren't, a stream from a source without times. Sources of rows learn the types
of their topic here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raystreams.cluster.connectors.base import ForTopic, Sink, Source, reading_of
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.suggest import did_you_mean
from raystreams.operators.graph import TopicSink, TopicSource, Topology
from raystreams.operators.options import DeadLetter, OnError, Topic

AnySource = Source[Any, Any]
AnySink = Sink[Any, Any]
Sources = Mapping[Any, AnySource]
"""By topic, or by its name."""
Sinks = Mapping[Any, AnySink | Sequence[AnySink]]


@dataclass(frozen=True, slots=True)
class Bindings:
    """Sources and sinks by the name of their topic; sources of rows read them as the topic's types."""

    sources: Mapping[str, AnySource]
    sinks: Mapping[str, tuple[AnySink, ...]]


def name_of(topic: str | Topic[Any, Any]) -> str:
    """Return a topic's name."""
    return topic.name if isinstance(topic, Topic) else topic


def bind(topology: Topology, sources: Sources, sinks: Sinks, on_error: OnError | None = None) -> Bindings:
    """Check the bindings of a job and return them by name; raises ConfigError. Idempotent."""
    given = {name_of(topic): source for topic, source in sources.items()}
    outputs = {name_of(topic): _as_tuple(sink) for topic, sink in sinks.items()}
    readers = {topic: node for node in topology.sources for topic in _topics_of(_source(node.operator), given)}
    written, dynamic = written_topics(topology)
    letters = dead_letter_topics(topology, given, on_error)
    _check_known("source", given, readers)
    if not dynamic:
        _check_known("sink", outputs, written | letters)
    unread = [topic for topic in readers if topic not in given and topic not in written]
    unwritten = [topic for topic in sorted(written | letters) if topic not in outputs and topic not in readers]
    if unread or unwritten:
        lists = [
            f"{what} for {', '.join(map(repr, topics))}" for what, topics in (("source", unread), ("sink", unwritten)) if topics
        ]
        raise ConfigError(f"topics are bound to nothing: there is no {', and no '.join(lists)}. Add [sources.X], [sinks.X]")
    typed: dict[str, AnySource] = {}
    for topic, source in given.items():
        operator = _source(readers[topic].operator)
        try:
            settings = reading_of(source)
            typed[topic] = (
                source.for_topic(Topic(topic, key=operator.key.hint, value=_hint(operator)))
                if isinstance(source, ForTopic)
                else source
            )
        except (ConfigError, ValueError, TypeError) as error:
            raise ConfigError(f"the source of {topic!r}: {error}") from error
        if not settings.timestamped and not operator.is_table and operator.consumed.timestamp_extractor is None:
            raise ConfigError(
                f"the source of {topic!r}: a stream needs times. Set timestamp to a column, or to \"arrival\" for the wall clock"
            )
    return Bindings(typed, _typed_sinks(topology, outputs))


def splits_of(topic: str, source: AnySource) -> list[str]:
    """Return the ids of a source's splits; what its files lack is a ConfigError that names the topic."""
    try:
        splits = list(source.splits())
    except ConfigError as error:
        raise ConfigError(f"the source of {topic!r}: {error}") from error
    if len(set(splits)) != len(splits):
        raise ConfigError(f"the source of {topic!r}: splits() gives one id twice: {splits}")
    return splits


def _typed_sinks(
    topology: Topology, outputs: Mapping[str, tuple[AnySink, ...]]
) -> dict[str, tuple[AnySink, ...]]:
    types = {}
    for node in topology.sinks:
        operator = node.operator
        if isinstance(operator, TopicSink) and isinstance(operator.topic, str):
            types[operator.topic] = Topic(operator.topic, key=operator.key.hint, value=_hint(operator))
    return {
        name: tuple(sink.for_topic(types[name]) if name in types and isinstance(sink, ForTopic) else sink for sink in sinks)
        for name, sinks in outputs.items()
    }


def _source(operator: Any) -> TopicSource:
    assert isinstance(operator, TopicSource)
    return operator


def _hint(operator: TopicSource | TopicSink) -> Any:
    return getattr(operator.value, "hint", None)


def _as_tuple(sink: AnySink | Sequence[AnySink]) -> tuple[AnySink, ...]:
    return tuple(sink) if isinstance(sink, Sequence) else (sink,)


def _topics_of(operator: TopicSource, given: Mapping[str, Any]) -> Sequence[str]:
    if operator.pattern is None:
        return operator.topics
    return [topic for topic in given if operator.pattern.fullmatch(topic)]


def written_topics(topology: Topology) -> tuple[set[str], bool]:
    """The topics that are written, and whether some are named only at run time."""
    sinks = [node.operator for node in topology.sinks if isinstance(node.operator, TopicSink)]
    late = [getattr(node.operator, "late_records_to", None) for node in topology.nodes.values()]
    topics = [sink.topic for sink in (*sinks, *late) if isinstance(sink, TopicSink)]
    return {topic for topic in topics if isinstance(topic, str)}, any(not isinstance(topic, str) for topic in topics)


def dead_letter_topics(topology: Topology, sources: Mapping[str, AnySource], on_error: OnError | None) -> set[str]:
    """The topics that records go to which fail."""
    choices = [on_error, *(node.on_error for node in topology.nodes.values())]
    choices += [node.operator.consumed.on_error for node in topology.sources if isinstance(node.operator, TopicSource)]
    choices += [getattr(source, "on_error", None) for source in sources.values()]
    return {choice.topic_name for choice in choices if isinstance(choice, DeadLetter)}


def _check_known(what: str, bound: Mapping[str, Any], known: Any) -> None:
    for topic in bound:
        if topic not in known:
            verb = "reads" if what == "source" else "writes"
            raise ConfigError(f"the {what} of {topic!r}: the topology {verb} no topic of that name{did_you_mean(topic, known)}")
