"""The manager of one job: a detached Ray actor around a `Supervisor`. It runs no code of the job.

    a coroutine for each actor    sends orders, takes the report, tells the supervisor; so a death is known at the next report
    one for the rest              looks at nodes, lets the supervisor decide, now and then and whenever something was heard

Ray starts it again when its process dies (`max_restarts=-1`). The next one takes a new incarnation, finds the record, and the
tasks, which went on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable
from logging import getLogger
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError, RayError, RuntimeEnvSetupError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from raystreams.cluster.actor import TaskActor, end_with
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.job_record import OVER, Copy, JobRecord, PartitionRecord
from raystreams.cluster.log_lines import Line, LogLines
from raystreams.cluster.names import NAMESPACE
from raystreams.cluster.orders import Mode, Report
from raystreams.cluster.placement import spread
from raystreams.cluster.ray_nodes import is_reachable, nodes_now
from raystreams.cluster.ray_records import RayRecords
from raystreams.cluster.state_dir import copy_path
from raystreams.cluster.statuses import JobStatus, Place, status_of
from raystreams.cluster.supervision import Supervisor
from raystreams.cluster.survey import Look, forget_markers, groups, look, markers, state_of
from raystreams.cluster.user_code import message_of

_log = getLogger(__name__)

REPORT_SECONDS = 0.2
TICK_SECONDS = 0.25
NODES_SECONDS = 1.0
UNHEARD_SECONDS = 1.0
"""After so long without a report the node is asked if it is there: Ray itself needs some 15 s to know."""

SURVEY_SECONDS = 60.0


class JobManager:
    """Starts, watches and stops the tasks of one job."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._lines = LogLines()
        self._lines.take_over()
        self._records = RayRecords()
        self._handles: dict[str, Any] = {}
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._supervisor: Supervisor | None = None
        self._heard: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None
        threading.Thread(target=end_with, args=(os.getppid(),), name="watch", daemon=True).start()

    # ---- what clients ask

    async def run(self) -> None:
        """Begin to manage, if that is not so yet. Called once by whoever submits; after a restart each call does it."""
        self._begin()

    async def status(self) -> JobStatus:
        """How the job is."""
        self._begin()
        supervisor = self._supervisor
        if supervisor is None:
            record = self._records.load(self._job)
            assert record is not None
            return status_of(record)
        return status_of(supervisor.record, supervisor)

    async def command(self, mode: Mode) -> None:
        """Run, pause or stop the job from now on."""
        self._begin()
        if self._supervisor is not None:
            self._supervisor.want(mode)
            self._notify()

    async def rebalance(self, leave: list[str]) -> dict[int, str]:
        """Spread the tasks over the nodes that there are, none on those to be left; returns the moves that were begun."""
        self._begin()
        if self._supervisor is None:
            return {}
        record = self._supervisor.record
        self._supervisor.see_nodes(nodes_now())
        self._supervisor.custody.rebalance(leave)
        self._notify()
        return {partition: task.goes_to for partition, task in record.tasks.items() if task.goes_to}

    async def pid(self) -> int:
        """The process."""
        return os.getpid()

    async def logs(self, after: int) -> list[Line]:
        """The last lines that were logged here, after one."""
        return self._lines.after(after)

    async def places(self) -> dict[int, Place]:
        """Where the partitions are, for reads."""
        self._begin()
        record = self._supervisor.record if self._supervisor is not None else self._records.load(self._job)
        if record is None:
            return {}
        return {
            partition: Place(
                name=task.owner, epoch=task.epoch, node=task.copies[task.owner].node,
                standbys=tuple(name for name in task.copies if name != task.owner),
            )
            for partition, task in record.tasks.items()
            if task.owner in task.copies
        }  # fmt: skip

    # ---- life

    def _begin(self) -> None:
        if self._main is None:
            self._heard = asyncio.Event()
            self._main = asyncio.get_running_loop().create_task(self._manage())

    def _notify(self) -> None:
        assert self._heard is not None
        self._heard.set()

    async def _manage(self) -> None:
        record = self._records.load(self._job)
        if record is None or record.state in OVER:
            self._leave()
            return
        is_new = not record.tasks
        record.incarnation += 1
        record.counter = 0
        try:
            if is_new:
                await self._place(record)
            self._records.save(record)
            _log.info("the manager's incarnation %d %s", record.incarnation, "starts the tasks" if is_new else "takes over")
            supervisor = Supervisor(record, self, time.monotonic())
            supervisor.see_nodes(nodes_now())
            self._supervisor = supervisor
            if is_new:
                supervisor.launch_all()
            await self._supervise(supervisor)
        except Exception as error:
            record.state, record.error, record.ended_at = "failed", message_of(error), time.time()
            self._records.save(record)
            for copy in (copy for task in record.tasks.values() for copy in task.copies.values()):
                self.end(copy.name)
        self._leave()

    def _leave(self) -> None:
        """Nothing is left to do: this actor ends. What became of the job is in its record."""
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    async def _supervise(self, supervisor: Supervisor) -> None:
        assert self._heard is not None
        looked_at = time.monotonic()
        while not supervisor.is_over:
            for name in supervisor.actors.names():
                if name not in self._watched or self._watched[name].done():
                    self._watched[name] = asyncio.get_running_loop().create_task(self._watch(supervisor, name))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._heard.wait(), TICK_SECONDS)
            self._heard.clear()
            if time.monotonic() - looked_at > NODES_SECONDS:
                supervisor.see_nodes(await self._reachable_nodes(supervisor))
                looked_at = time.monotonic()
            supervisor.tick(time.monotonic())

    async def _reachable_nodes(self, supervisor: Supervisor) -> list[Any]:
        """The nodes that there are. Those with an actor that has become silent are asked, as Ray is slow to know."""
        nodes = nodes_now()
        doubtful = supervisor.actors.silent_nodes(time.monotonic(), UNHEARD_SECONDS)
        loop = asyncio.get_running_loop()
        there = await asyncio.gather(
            *(loop.run_in_executor(None, is_reachable, node) for node in nodes if node.id in doubtful)
        )
        reachable = dict(zip((node.id for node in nodes if node.id in doubtful), there, strict=True))
        return [node for node in nodes if reachable.get(node.id, True)]

    # ---- where tasks go at first

    async def _place(self, record: JobRecord) -> None:
        """Look for state that there is, and give each partition a node. ConfigError if that is not possible."""
        nodes = nodes_now()
        token = f".marker-{record.job}-{os.urandom(4).hex()}-"
        marker_of = {node.id: token + node.id[:16] for node in nodes}
        found = await self._on_nodes(
            marker_of, lambda on, id: on(look).remote(record.state_dir, record.job, record.partitions, marker_of[id])
        )
        looks: dict[str, Look] = {node: answer for node, answer in found.items() if isinstance(answer, Look)}
        seen = await self._on_nodes(looks, lambda on, id: on(markers).remote(record.state_dir, token))
        await self._on_nodes(looks, lambda on, id: on(forget_markers).remote(record.state_dir, token))
        if not looks:
            raise ConfigError("no node of the cluster has answered; see `ray status`")
        record.shared_nodes = groups({node: names for node, names in seen.items() if names is not None}, marker_of)
        states = state_of(looks, record.shared_nodes, record.partitions, record.state_dir)
        there = [node for node in nodes if node.id in looks]
        chosen = spread(there, [None if state is None else state[1] for state in states], record.needs)
        for partition, (state, node) in enumerate(zip(states, chosen, strict=True)):
            path = str(copy_path(Path(record.state_dir), partition, 0)) if state is None else state[0]
            copy = Copy(name=record.new_name(partition), node=node, path=path)
            record.tasks[partition] = PartitionRecord(epoch=record.new_epoch(), owner=copy.name, copies={copy.name: copy})

    async def _on_nodes(self, nodes: Any, call: Callable[[Any, str], Any]) -> dict[str, Any]:
        """Run something on each node; None for those that fail or don't answer in time."""

        async def on(node: str) -> Any:
            def remote(function: Any) -> Any:
                strategy = NodeAffinitySchedulingStrategy(node, soft=False)
                return ray.remote(function).options(num_cpus=0, scheduling_strategy=strategy, max_retries=0)

            try:
                return await asyncio.wait_for(_value(call(remote, node)), SURVEY_SECONDS)
            except (RayError, asyncio.TimeoutError):
                return None

        names = list(nodes)
        return dict(zip(names, await asyncio.gather(*(on(node) for node in names)), strict=True))

    # ---- the supervisor's hands

    def save(self, record: JobRecord) -> None:
        """Write the record down."""
        self._records.save(record)
        self._notify()

    def launch(self, partition: int, copy: Copy) -> None:
        """Start an actor."""
        assert self._supervisor is not None
        needs = self._supervisor.record.needs
        options: dict[str, Any] = {
            "name": copy.name, "namespace": NAMESPACE, "lifetime": "detached", "max_restarts": 0, "max_task_retries": 0,
            "num_cpus": needs.num_cpus, "resources": dict(needs.resources),
            "scheduling_strategy": NodeAffinitySchedulingStrategy(copy.node, soft=False), "max_concurrency": 1000,
        }  # fmt: skip
        if needs.memory is not None:
            options["memory"] = needs.memory
        if self._supervisor.record.runtime_env:
            options["runtime_env"] = self._supervisor.record.runtime_env
        self._handles[copy.name] = ray.remote(TaskActor).options(**options).remote(self._job, copy.name, partition, copy.path)

    def end(self, name: str) -> None:
        """Kill an actor."""
        handle = self._handles.pop(name, None)
        with contextlib.suppress(ValueError, RayError):
            ray.kill(handle if handle is not None else ray.get_actor(name, namespace=NAMESPACE))

    async def _watch(self, supervisor: Supervisor, name: str) -> None:
        """Tell an actor its orders and the supervisor its reports, as long as it lives."""
        while name in supervisor.actors.names() and not supervisor.is_over:
            orders = supervisor.orders_of(name)
            if orders is None:
                return
            try:
                if name not in self._handles:
                    self._handles[name] = ray.get_actor(name, namespace=NAMESPACE)
                report: Report = await self._handles[name].report.remote(orders)
            except ValueError:
                supervisor.actors.died(name, "it is not in the cluster any more")
            except ActorDiedError as error:
                supervisor.actors.died(name, _why(error))
            except RayActorError:
                await asyncio.sleep(REPORT_SECONDS)  # it can't be reached now, which may pass
                continue
            except RayError as error:
                if isinstance(error, RuntimeEnvSetupError):
                    # No repetition mends that; said here, as Ray would try again without a word.
                    supervisor.fail(f"the [runtime_env] of the job can't be made for {name}: {error}")
                await asyncio.sleep(REPORT_SECONDS)
                continue
            else:
                supervisor.actors.reported(name, report, time.monotonic())
            self._notify()
            await asyncio.sleep(REPORT_SECONDS)


async def _value(ref: Awaitable[Any]) -> Any:
    return await ref


def _why(error: RayError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
