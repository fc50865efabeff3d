"""Questions to the stores of a stopped job, as the command line asks them: keys as text in, plain rows out.

    KEY    of a store of `str` keys: the text itself; of other types: JSON, such as 7 or ["eu", 1], and dates and times also
           without quotes; of a store without a type: JSON if it is such, else text

Rows are dicts of plain data: key, value, and timestamp, valid_to, start and end where the store has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from raystreams.cluster.connectors.row_writer import encode_hook
from raystreams.cluster.errors import ConfigError, NotAvailableError
from raystreams.cluster.partitioned_store import PartitionedStore
from raystreams.cluster.suggest import did_you_mean
from raystreams.operators.graph import Topology
from raystreams.stores import hints
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.database import TaskDatabase
from raystreams.stores.serdes import key_serde
from raystreams.stores.values import MAX_TIME, Time, Windowed

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One of: a key (`as_of`, `history` for versioned stores), a range (either bound may be None), or all."""

    key: str | None = None
    range: tuple[str, str] | None = None
    all: bool = False
    as_of: Time | None = None
    history: bool = False
    reverse: bool = False


def builder_of(topology: Topology, store: str) -> StoreBuilder[Any]:
    """Return the description of a store; a ConfigError suggests the right name."""
    if store not in topology.stores:
        raise ConfigError(f"the topology has no store {store!r}{did_you_mean(store, topology.stores)}")
    return topology.stores[store]


def ask(topology: Topology, databases: Sequence[TaskDatabase], store: str, question: Question) -> Iterator[Row]:
    """Yield the rows that answer a question, from what is committed."""
    builder = builder_of(topology, store)
    if not any(store in database.catalog for database in databases):
        raise NotAvailableError(f"the store {store!r} has no rows yet: the job has not run since it was added")
    # Each task has a copy of a global store.
    asked = databases[:1] if store in topology.global_stores else databases
    view = PartitionedStore(builder, lambda: [builder.read_committed(database) for database in asked])
    if question.key is not None:
        yield from _of_key(view, builder, parse_key(question.key, builder), question)
        return
    rows = _of_range(view, builder, question)
    with rows:
        for key, value in rows:
            yield _row(key, value)


def parse_key(text: str, builder: StoreBuilder[Any]) -> Any:
    """Return a key that is written as text as what the store's keys are; a ConfigError says what it expects."""
    hint = key_serde(builder.key).hint
    bare = hints.bare(hint) if not hints.plain_hint(hint) else None
    if bare is str:
        return text
    if bare is None or hints.is_abstract_serde(hint):
        return _plain_key(text)
    if hints.origin_of(bare) is Windowed:
        bare = (getattr(bare, "__args__", None) or (Any,))[0]
    try:
        return msgspec.json.decode(text, type=bare, strict=False)
    except msgspec.MsgspecError:
        pass
    try:
        return msgspec.convert(text, bare, strict=False)
    except msgspec.MsgspecError as error:
        name = hints.describe(hints.schema(bare))
        raise ConfigError(f"{text!r} is no key of the store {builder.name!r}, whose keys are {name}: {error}") from error


def _plain_key(text: str) -> Any:
    try:
        key = json.loads(text)
    except ValueError:
        return text
    return _tuples(key)


def _tuples(key: Any) -> Any:
    return tuple(map(_tuples, key)) if isinstance(key, list) else key


def _of_key(view: Any, builder: StoreBuilder[Any], key: Any, question: Question) -> Iterator[Row]:
    versioned = builder.kind == "versioned"
    if (question.as_of is not None or question.history) and not versioned:
        raise ConfigError(f"the store {builder.name!r} keeps no history: --as-of and --history are for versioned stores")
    if versioned and question.history:
        with view.history(key, reverse=question.reverse) as versions:
            for version in versions:
                yield _row(key, version)
    elif versioned:
        found = view.get(key) if question.as_of is None else view.get(key, as_of=question.as_of)
        if found is not None:
            yield _row(key, found)
    elif "window" in builder.kind:
        fetch = view.backward_fetch if question.reverse else view.fetch
        with fetch(key, 0, MAX_TIME) as windows:
            for start, value in windows:
                yield {"key": _plain(key), "start": start, "value": _plain(value)}
    elif "session" in builder.kind:
        with (view.backward_fetch if question.reverse else view.fetch)(key) as sessions:
            for session, value in sessions:
                yield _row(session, value)
    else:
        value = view.get(key)
        if value is not None:
            yield _row(key, value)


def _of_range(view: Any, builder: StoreBuilder[Any], question: Question) -> Any:
    if builder.kind == "versioned":
        raise ConfigError(f"the store {builder.name!r} is versioned, which is asked by key, not by --range or --all")
    if question.range is None:
        over = "backward_all" if {"window", "session"} & set(builder.kind.split("_")) else "reverse_all"
        if "session" in builder.kind:
            return (view.backward_fetch_range if question.reverse else view.fetch_range)(None, None)
        return getattr(view, over if question.reverse else "all")()
    first, last = (parse_key(text, builder) for text in question.range)
    if "window" in builder.kind:
        return (view.backward_fetch_range if question.reverse else view.fetch_range)(first, last, 0, MAX_TIME)
    if "session" in builder.kind:
        return (view.backward_fetch_range if question.reverse else view.fetch_range)(first, last)
    return (view.reverse_range if question.reverse else view.range)(first, last)


def _row(key: Any, value: Any) -> Row:
    row: Row = {}
    if isinstance(key, Windowed):
        row |= {"key": _plain(key.key), "start": key.start, "end": key.end}
    else:
        row["key"] = _plain(key)
    if hasattr(value, "valid_to"):
        return row | {"value": _plain(value.value), "timestamp": value.timestamp, "valid_to": value.valid_to}
    return row | {"value": _plain(value)}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=encode_hook)


def as_text(row: Mapping[str, Any]) -> str:
    """Return a row for a terminal: key and value in JSON, then whatever else it has."""
    others = "".join(f"  {name}={value}" for name, value in row.items() if name not in ("key", "value"))
    return f"{_short(row['key'])}  {_short(row['value'])}{others}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
