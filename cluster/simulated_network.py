"""The network of a simulated cluster: calls wait, and are carried out at some time, twice, or never; so are their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from raystreams.cluster import links
from raystreams.cluster.replica import Replica
from raystreams.cluster.simulated_parts import Call, Chance

ANSWERS = {"packet": "replied", "replicate": "replicated"}


class SimulatedNetwork:
    """All calls that were made and not carried out."""

    def __init__(self, chance: Chance, replica_of: Callable[[str], Replica | None]) -> None:
        self._chance, self._replica_of = chance, replica_of
        self._calls: list[Call] = []

    def post(self, call: Call) -> None:
        """Something is sent."""
        self._calls.append(call)

    def deliver_all(self) -> None:
        """As many as there are now."""
        for _ in range(len(self._calls)):
            self.deliver()

    def deliver(self) -> None:
        """One of them arrives, or is lost; without chance the oldest one arrives."""
        if not self._calls:
            return
        index = self._chance.some([*range(len(self._calls)), 0])
        call = self._calls[index]
        if call.kind in ANSWERS and self._chance.happens(0.05):
            self._carry_out(call)  # and it will come again
            return
        del self._calls[index]
        if not self._chance.happens(0.07):
            self._carry_out(call)
        elif call.kind in ANSWERS:
            self._answer(call, None)
        else:
            self._calls.append(replace(call, data=None))  # it was done, and nobody hears of it

    def _answer(self, call: Call, data: Any) -> None:
        self._calls.append(Call(call.to, call.caller, ANSWERS[call.kind], data, call.about))

    def _carry_out(self, call: Call) -> None:
        replica = self._replica_of(call.to)
        if call.kind not in ANSWERS:
            if replica is not None:
                replica.post(call.kind, *call.about, call.data)
            return
        if replica is None:
            self._answer(call, None)
            return
        answered: list[bool] = []

        def respond(answer: Any) -> None:
            if answered:
                return
            answered.append(True)
            self._answer(call, links.decode_reply(links.encode(answer)) if call.kind == "packet" else answer)

        replica.post(call.kind, call.data, respond)
