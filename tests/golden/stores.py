"""A golden case's store operations, run on a stand-alone store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import raystreams as rs
from tests.golden.topologies import plain


def builder_of(spec: dict[str, Any]) -> Any:
    """The builder of the case's store."""
    ((kind, s),) = spec.items()
    match kind:
        case "key_value":
            return rs.Stores.key_value("s")
        case "versioned":
            return rs.Stores.versioned("s", history_retention=s["retention"], segment_interval=s.get("segment"))
        case "window":
            duplicates = s.get("duplicates", False)
            return rs.Stores.window("s", retention=s["retention"], size=s["size"], retain_duplicates=duplicates)
        case "session":
            return rs.Stores.session("s", retention=s["retention"])
    raise ValueError(kind)


def version(v: Any) -> Any:
    return None if v is None else [v.value, v.timestamp, v.valid_to]


def operate(store: Any, kind: str, op: list[Any]) -> Any:
    """The result of one operation, as JSON has it."""
    name, *args = op
    if kind == "versioned":
        if name == "get_as_of":
            return version(store.get(args[0], as_of=args[1]))
        if name == "history":
            with store.history(args[0], start=args[1], end=args[2], reverse=args[3]) as rows:
                return [version(v) for v in rows]
        result = getattr(store, name)(*args)
        return result if name == "put" else version(result)
    if name == "fetch_one":
        return store.fetch(*args)
    if kind == "session" and name in ("put", "remove"):
        key, start, end, *value = args
        getattr(store, name)(rs.Windowed(key, start, end), *value)
        return None
    result = getattr(store, name)(*args)
    if name in ("put", "put_if_absent", "delete", "get", "fetch_session"):
        return result
    with result as rows:
        return [[plain(key), value] for key, value in rows]


def run(case: dict[str, Any], path: Path | None = None) -> list[Any]:
    """The results of the case's operations."""
    out: list[Any] = []
    kind = next(iter(case["store"]))
    with builder_of(case["store"]).open(path) as store:
        for op in case["ops"]:
            try:
                out.append(operate(store, kind, op))
            except ValueError:
                out.append("error")
    return out
