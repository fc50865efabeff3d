"""Stream operators without state. A user's function that raises ends its own operator's work for that record only: what
comes after it is called outside the `try` (spec-runtime 5.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.record import Headers, Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Keep records for which the predicate's answer is `keep`. It sees null keys and values."""

    predicate: Callable[[Any, Any], bool]
    keep: bool = True

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, predicate, keep = node.forward, node.failed, self.predicate, self.keep

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                kept = bool(predicate(key, value)) is keep
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if kept:
                forward(key, value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """A new key and value for each record."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, mapper = node.forward, node.failed, self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                new_key, new_value = _pair(mapper(key, value))
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            forward(new_key, new_value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class MapValues:
    """A new value for each record, null ones too."""

    mapper: Callable[..., Any]
    with_key: bool = False

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, mapper = node.forward, node.failed, self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                result = mapper(value)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            forward(key, result, timestamp, headers)

        def process_with_key(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                result = mapper(key, value)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            forward(key, result, timestamp, headers)

        return process_with_key if self.with_key else process


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectKey:
    """A new key for each record; None is a null key."""

    selector: Callable[[Any, Any], Any]

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, selector = node.forward, node.failed, self.selector

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                new_key = selector(key, value)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            forward(new_key, value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap:
    """Any number of records for each one, in the order in which the mapper gives them."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, mapper = node.forward, node.failed, self.mapper

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                pairs = [_pair(pair) for pair in _iterable(mapper(key, value))]
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            for new_key, new_value in pairs:
                forward(new_key, new_value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapValues:
    """Any number of values for each one, under its key."""

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, mapper, with_key = node.forward, node.failed, self.mapper, self.with_key

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                values = list(_iterable(mapper(key, value) if with_key else mapper(value)))
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            for new_value in values:
                forward(key, new_value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """Call a function with each record and pass it on unchanged; without children it is `for_each`."""

    action: Callable[[Any, Any], Any]

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, action = node.forward, node.failed, self.action

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                action(key, value)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            forward(key, value, timestamp, headers)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThrough:
    """Pass records on: a merge of several parents, a branch of a split."""

    def start(self, node: NodeRuntime) -> Process:
        return node.forward


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Give each record to the first branch whose predicate holds; `default` takes the rest, without one they vanish."""

    branches: tuple[tuple[Callable[[Any, Any], bool], str], ...]
    default: str | None

    def start(self, node: NodeRuntime) -> Process:
        failed = node.failed
        branches = [(predicate, node.children[child]) for predicate, child in self.branches]
        otherwise = node.children[self.default] if self.default is not None else None

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            chosen = otherwise
            try:
                for predicate, branch in branches:
                    if predicate(key, value):
                        chosen = branch
                        break
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            if chosen is not None:
                chosen(key, value, timestamp, headers)

        return process


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(f"the mapper must return one (key, value) pair, got {result!r}; to drop records use filter")
    return result[0], result[1]


def _iterable(result: Any) -> Iterable[Any]:
    if result is None:
        raise TypeError("the mapper must return an iterable, got None; return an empty list to drop the record")
    return result  # type: ignore[no-any-return]  # what isn't iterable raises its own TypeError
