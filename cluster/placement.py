"""On which node which task: spread over nodes, where there is room for what a task needs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from raystreams.cluster.errors import ConfigError
from raystreams.cluster.job_record import TaskNeeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster, with what is free there now."""

    id: str
    free: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)


def asked_of(needs: TaskNeeds) -> dict[str, float]:
    """Return what a task takes, by Ray's names."""
    asked = {"CPU": needs.num_cpus, **needs.resources}
    if needs.memory is not None:
        asked["memory"] = needs.memory
    return {name: amount for name, amount in asked.items() if amount > 0}


def room_for(nodes: Iterable[Node], needs: TaskNeeds) -> list[Node]:
    """Return the nodes where one more task fits."""
    asked = asked_of(needs)
    return [
        node
        for node in nodes
        if all(node.free.get(name, 0.0) >= amount - 1e-9 for name, amount in asked.items())
        and all(node.labels.get(name) == value for name, value in needs.labels.items())
    ]


def roomiest(nodes: Sequence[Node]) -> Node | None:
    """Return the node with the most free CPUs; of equals the first by id, so that it is the same one each time."""
    return min(nodes, key=lambda node: (-node.free.get("CPU", 0.0), node.id), default=None)


def spread(nodes: Sequence[Node], allowed: Sequence[Collection[str] | None], needs: TaskNeeds) -> list[str]:
    """Return a node's id for each partition, as even as room allows. ConfigError says what is missing if they don't all fit.

    `allowed` are the nodes that have a partition's state; None: it has none yet, and may be anywhere.
    """
    free = {node.id: node for node in nodes}
    count = dict.fromkeys(free, 0)
    placed: list[str] = []
    asked = asked_of(needs)
    for only in allowed:
        fitting = [node for node in room_for(free.values(), needs) if only is None or node.id in only]
        if not fitting:
            raise ConfigError(_no_room(nodes, len(allowed), len(placed), needs, only))
        chosen = min(fitting, key=lambda node: (count[node.id], -node.free.get("CPU", 0.0), node.id))
        count[chosen.id] += 1
        left = {name: amount - asked.get(name, 0.0) for name, amount in chosen.free.items()}
        free[chosen.id] = replace(chosen, free=left)
        placed.append(chosen.id)
    return placed


def balanced(
    nodes: Sequence[Node], owners: Mapping[int, str], leave: Collection[str], needs: TaskNeeds
) -> dict[int, str]:
    """Return the partitions that should move, and where to: as few as make the nodes even, and all from those to be left.

    ConfigError if a node is to be left and there is no room elsewhere.
    """
    asked = asked_of(needs)
    free = {node.id: node for node in nodes if node.id not in leave}
    held = {node.id: [p for p, owner in owners.items() if owner == node.id] for node in nodes}
    moves: dict[int, str] = {}
    for source in sorted(held, key=lambda id: (id not in leave, -len(held[id]), id)):
        while held[source]:
            fitting = [node for node in room_for(free.values(), needs) if node.id != source]
            target = min(fitting, key=lambda node: (len(held[node.id]), node.id), default=None)
            if source in leave and target is None:
                raise ConfigError(_no_room([*free.values()], len(owners), len(owners) - len(held[source]), needs, None))
            if target is None or (source not in leave and len(held[source]) - len(held[target.id]) < 2):
                break
            partition = held[source].pop()
            held[target.id].append(partition)
            moves[partition] = target.id
            left = {name: amount - asked.get(name, 0.0) for name, amount in target.free.items()}
            free[target.id] = replace(target, free=left)
    return moves


def _no_room(nodes: Sequence[Node], partitions: int, fit: int, needs: TaskNeeds, only: Collection[str] | None) -> str:
    asked = asked_of(needs)
    need = ", ".join(f"{_amount(name, amount)}" for name, amount in asked.items()) or "nothing"
    names = [*asked]
    free = "; ".join(
        f"node {node.id[:8]}: {', '.join(_amount(name, node.free.get(name, 0.0)) for name in names)}" for node in nodes
    )
    state = f" (the state of partition {fit} is on {', '.join(id[:8] for id in only)})" if only is not None else ""
    labels = f" on nodes labelled {dict(needs.labels)}" if needs.labels else ""
    return (
        f"not enough resources: {partitions} tasks need {need} each{labels}, and only {fit} of them fit{state}. "
        f"Free are {free or 'none'}. Add nodes, stop other jobs, or lower num_cpus, memory or resources under [cluster]"
    )


def _amount(name: str, amount: float) -> str:
    if name == "memory":
        return f"{amount / (1 << 20):,.0f} MiB of memory"
    return f"{amount:g} {name}"
