"""Where the tasks of a job are in a Ray cluster: its manager knows their names, Ray finds actors by name.

    manager   places() -> {partition: Place}    Place.name of the owner, Place.standbys of those that follow it
    task      read(ReadRequest) -> ReadResponse

An actor that can't be reached is a NotAvailableError with `retry`, as it comes back elsewhere, under the name of its next
epoch. What a task raises arrives as what it was, with Ray's error, which has the task's traceback, as its cause.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError
from raystreams.cluster.errors import NotAvailableError
from raystreams.cluster.remote_requests import Ask, failed
from raystreams.cluster.task_reads import ReadRequest, ReadResponse

_PATIENCE = 5.0
"""Seconds for the manager to answer."""


class RayDirectory:
    """The directory of a job, of which any number of threads may ask."""

    def __init__(self, job: str, manager: str, namespace: str) -> None:
        """Look for the job; NotAvailableError if there is none, or if it can't be asked now."""
        self.job = job
        self._manager, self._namespace = manager, namespace
        self._lock = threading.Lock()
        self._looks = 0
        self._handles: dict[str, Any] = {}
        self._owners: Mapping[int, Ask] = {}
        self._standbys: Mapping[int, Sequence[Ask]] = {}
        self.refresh()

    def owners(self, partition: int | None) -> Sequence[Ask]:
        """Return the task that has a partition, of all for None; those that are known now."""
        owners = self._owners
        if partition is None:
            return list(owners.values())
        return [owners[partition]] if partition in owners else ()

    def standbys(self, partition: int | None) -> Sequence[Ask]:
        """Return the standbys of a partition, of all for None."""
        standbys = self._standbys
        if partition is None:
            return [ask for asks in standbys.values() for ask in asks]
        return standbys.get(partition, ())

    def refresh(self) -> None:
        """Ask the manager where the tasks are; threads that come while one asks take its answer."""
        seen = self._looks
        with self._lock:
            if self._looks != seen:
                return
            places = self._places()
            names = {n: (place.name, *place.standbys) for n, place in places.items()}
            known = {name: self._find(name) for all_names in names.values() for name in all_names}
            self._handles = {name: handle for name, handle in known.items() if handle is not None}
            asks = {name: self._ask(name, handle) for name, handle in self._handles.items()}
            self._standbys = {n: [asks[name] for name in rest if name in asks] for n, (_, *rest) in names.items()}
            self._owners = {n: asks[owner] for n, (owner, *_) in names.items() if owner in asks}
            self._looks += 1

    def _places(self) -> Mapping[int, Any]:
        try:
            manager = ray.get_actor(self._manager, namespace=self._namespace)
        except ValueError as error:
            raise NotAvailableError(f"no job {self.job!r} is running in this cluster", False) from error
        try:
            places: Mapping[int, Any] = ray.get(manager.places.remote(), timeout=_PATIENCE)
        except (RayError, GetTimeoutError) as error:
            raise _ours(error, f"the manager of the job {self.job!r}") from error
        return places

    def _find(self, name: str) -> Any:
        if name in self._handles:
            return self._handles[name]
        try:
            return ray.get_actor(name, namespace=self._namespace)
        except ValueError:  # it is being started
            return None

    def _ask(self, name: str, handle: Any) -> Ask:
        def ask(request: ReadRequest) -> Future[ReadResponse]:
            try:
                answer: Future[ReadResponse] = handle.read.remote(request).future()
            except RayError as error:
                return failed(_ours(error, f"the task {name!r}"))
            response: Future[ReadResponse] = Future()
            response.set_running_or_notify_cancel()  # so an event loop that gives up can't cancel it under us

            def pass_on(done: Future[ReadResponse]) -> None:
                error = done.exception()
                if error is None:
                    response.set_result(done.result())
                    return
                if isinstance(error, ActorDiedError):
                    self._handles.pop(name, None)
                response.set_exception(_ours(error, f"the task {name!r}"))

            answer.add_done_callback(pass_on)
            return response

        return ask


def _ours(error: BaseException, what: str) -> BaseException:
    """Return what was raised at the other side; for all that Ray says of actors and nodes, that it is to be asked again."""
    if isinstance(error, RayTaskError):
        raised: BaseException = error.cause or error
    elif isinstance(error, RayError):
        text = str(error).strip() or type(error).__name__
        raised = NotAvailableError(f"{what} can't be reached: {text.splitlines()[0]}", True)
    else:
        return error
    if raised is not error:
        raised.__cause__ = error
    return raised
