"""The nodes of a Ray cluster as they are now."""

from __future__ import annotations

import socket
from typing import Any

import ray
from raystreams.cluster.placement import Node

_CONNECT_SECONDS = 1.0


def nodes_now() -> list[Node]:
    """Return the nodes that Ray takes to be alive, with what is free on each."""
    free = _free()
    return [
        Node(id=node["NodeID"], free=free.get(node["NodeID"], node["Resources"]), labels=node.get("Labels") or {})
        for node in _nodes()
        if node["Alive"]
    ]


def _nodes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return found


def _free() -> dict[str, dict[str, float]]:
    # Ray has no public call that tells what is free on each node.
    from ray._private.state import available_resources_per_node

    found: dict[str, dict[str, float]] = available_resources_per_node()  # type: ignore[no-untyped-call]
    return found


def is_reachable(node: Node) -> bool:
    """Tell whether a node's Ray still takes connections; of one that was killed the port is closed at once."""
    where = next((one for one in _nodes() if one["NodeID"] == node.id), None)
    return where is not None and bool(where["Alive"]) and _connects(where)


def _connects(node: dict[str, Any]) -> bool:
    try:
        with socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), _CONNECT_SECONDS):
            return True
    except OSError:
        return False
