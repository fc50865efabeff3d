"""Sorting a table's records by time before anything sees them: KIP-914's long-term vision of grace at table sources.

A record waits until stream time, the largest timestamp that has come here, is `grace` past its own; what is due then leaves in
the order of (time, key bytes, arrival). One that is older than stream time less grace could only come out of order: it is
dropped, and counted as late. With grace 0 nothing waits, and whatever is older than the newest record is dropped.

At the end of bounded input all records come out; a watermark lets out what a record of that time would.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from raystreams.operators.draft import GraphDraft
from raystreams.operators.execution import NodeRuntime
from raystreams.operators.grace_buffer import Waiting
from raystreams.operators.record import Headers, Process
from raystreams.stores.builders import time_ordered_buffer
from raystreams.stores.serdes import KeySerde, Serde


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """Holds records back until nothing older than they are can be on time."""

    wait: Waiting

    def start(self, node: NodeRuntime) -> Process:
        forward, drop = node.forward, node.drop
        wait = self.wait.start(node, forward, lambda key, value, timestamp, headers: drop("late"))

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                forward(key, value, timestamp, headers)  # the table drops and counts it
            else:
                wait(key, value, timestamp, headers)

        return process


_GENERATED = re.compile(r"-\d{10}-reorder\Z")


def add_reorder(draft: GraphDraft, parent: str, node: str, grace: int, key: KeySerde, value: Serde[Any]) -> str:
    """Add the node that sorts `parent`'s records; returns its name."""
    if grace < 0:
        raise ValueError(f"grace must not be negative, got {grace} ms")
    store = draft.store_of(node, "-buffer", None if _GENERATED.search(node) else node)
    draft.add_store(time_ordered_buffer(store))
    operator = Reorder(wait=Waiting(store=store, grace=grace, key=key, value=value))
    return draft.add(node, lambda: operator, [parent], stores=[store])
