"""Connectors by the names that job files use. A connector is imported when it is asked for: most need a library of their own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from raystreams.cluster import user_code
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.suggest import did_you_mean

Kind = Literal["source", "sink"]

_HOMES: dict[Kind, dict[str, tuple[str, str]]] = {
    "source": {
        "csv": ("csv", "CsvSource"),
        "jsonl": ("jsonl", "JsonLinesSource"),
        "parquet": ("parquet", "ParquetSource"),
    },
    "sink": {
        "csv": ("csv_sink", "CsvSink"),
        "jsonl": ("jsonl", "JsonLinesSink"),
        "parquet": ("parquet_sink", "ParquetSink"),
    },
}
_METHODS: dict[Kind, tuple[str, ...]] = {"source": ("splits", "read"), "sink": ("open",)}


def connector(name: str, kind: Kind, folder: Path) -> Callable[..., Any]:
    """Return the class that a connector's name means: one of ours, or `file.py:Class` relative to a folder."""
    homes = _HOMES[kind]
    if name in homes:
        module, attribute = homes[name]
        found: Callable[..., Any] = getattr(import_module(f"raystreams.cluster.connectors.{module}"), attribute)
        return found
    if ":" not in name:
        raise ConfigError(f'there is no {kind} connector {name!r}{did_you_mean(name, homes)} A class of yours is "file.py:Class"')
    found = user_code.load(name, folder)
    if not callable(found):
        raise ConfigError(f"{name} is no class or function that makes a {kind}")
    return found


def check_made(made: Any, name: str, kind: Kind) -> None:
    """Raise ConfigError unless what a connector has made is a source or a sink."""
    for method in _METHODS[kind]:
        if not callable(getattr(made, method, None)):
            raise ConfigError(f"{name} makes a {type(made).__name__}, which is no {kind}: it has no {method}()")
