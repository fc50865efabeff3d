"""The commands for jobs in a Ray cluster. Ray is imported by those that need it, when they run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from raystreams.cluster.cli_common import JOB, JSON, PARAMS, fail, load, print_json, reporting, terminating

if TYPE_CHECKING:
    from raystreams.cluster.submitted import SubmittedJob

_ADDRESS = click.option("--address", metavar="ADDR", help="Of the Ray cluster; without it the one that Ray finds.")
_NAME = click.argument("job", metavar="JOB")


@click.command()
@JOB
@PARAMS
@click.option("--address", metavar="ADDR", help='Of the Ray cluster; without it the one that Ray finds. "local" starts one here.')
@click.option("--num-cpus", type=click.IntRange(min=1), metavar="N", help="CPUs of the cluster that --address local starts.")
@click.option("--wait", is_flag=True, help="Show the job's tasks until it is over.")
@JSON
@reporting
def submit(
    job: Path, params: tuple[str, ...], address: str | None, num_cpus: int | None, wait: bool, as_json: bool
) -> None:
    """Run a job in a Ray cluster, each partition as an actor of its own."""
    from raystreams.cluster.job import Job
    from raystreams.cluster.submission import LOCAL

    if num_cpus is not None and address != LOCAL:
        raise click.UsageError("--num-cpus is of the cluster that --address local starts")
    made = Job.of(load(job, params))
    submitted = made.submit(address, num_cpus=num_cpus)
    with terminating():  # not before: Ray sets a handler of its own when a cluster is joined
        try:
            if wait or address == LOCAL:
                _wait(submitted, is_ours=address == LOCAL, as_json=as_json)
            elif as_json:
                print_json({"job": made.name, "state": submitted.status().state})
            else:
                name = made.name
                click.echo(f"submitted {name}. Follow it: raystreams status {name}; stop it: raystreams stop {name}")
        finally:
            submitted.close()


def _wait(submitted: SubmittedJob, *, is_ours: bool, as_json: bool) -> None:
    from raystreams.cluster.task_table import shown
    from raystreams.cluster.terminal import summary_data, summary_text

    try:
        with shown(sys.stderr, quiet=as_json) as show:
            summary = submitted.wait(show=show).summary
    except KeyboardInterrupt:
        if is_ours:
            submitted.stop()
            raise
        click.echo(f"{submitted.name} goes on. Stop it: raystreams stop {submitted.name}", err=True)
        sys.exit(130)
    if as_json:
        print_json(summary_data(submitted.name, summary))
    elif submitted.status().state == "stopped":
        click.echo(f"{submitted.name} was stopped; what was done is committed")
    else:
        click.echo(summary_text(submitted.name, summary))


@click.command(name="list")
@_ADDRESS
@JSON
@reporting
def list_jobs(address: str | None, as_json: bool) -> None:
    """List the jobs of a cluster."""
    from raystreams.cluster.submission import jobs

    with _cluster(address):
        found = jobs()
    if as_json:
        print_json([{"job": job.job, "state": job.state, "partitions": job.partitions, "error": job.error} for job in found])
        return
    for job in found:
        at = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(job.submitted_at))
        click.echo(f"{job.job}  {job.state}  {job.partitions} partitions  submitted {at}")
    if not found:
        click.echo("no jobs were submitted to this cluster")


@click.command()
@_NAME
@_ADDRESS
@JSON
@reporting
def status(job: str, address: str | None, as_json: bool) -> None:
    """Show a job's tasks: where they are, how far, what holds them up."""
    from raystreams.cluster.submission import status as status_now
    from raystreams.cluster.task_table import status_text

    with _cluster(address):
        found = status_now(_job_name(job))
    if as_json:
        print_json(msgspec.to_builtins(found, str_keys=True))
    else:
        click.echo(status_text(found))


@click.command()
@_NAME
@_ADDRESS
@click.option("--no-wait", is_flag=True, help="Return at once.")
@reporting
def stop(job: str, address: str | None, no_wait: bool) -> None:
    """Stop a job after a last commit of all its tasks. `resume`, or `submit`, goes on from there."""
    from raystreams.cluster.submission import command, follow

    name = _job_name(job)
    with _cluster(address):
        command(name, "stop")
        if no_wait:
            click.echo(f"{name} is stopping")
            return
        ended = follow(name)
    if ended.state == "failed":
        fail(f"{name} has failed: {ended.error}")
    click.echo(f"{name} is {ended.state}")


@click.command()
@_NAME
@_ADDRESS
@reporting
def pause(job: str, address: str | None) -> None:
    """Let a job read and process nothing until it is resumed."""
    from raystreams.cluster.submission import command

    with _cluster(address):
        command(_job_name(job), "pause")
    click.echo(f"{_job_name(job)} is paused")


@click.command()
@_NAME
@_ADDRESS
@reporting
def resume(job: str, address: str | None) -> None:
    """Let a paused job go on; start one again that was stopped or has failed."""
    from raystreams.cluster.submission import resume as go_on

    with _cluster(address):
        go_on(_job_name(job))
    click.echo(f"{_job_name(job)} goes on")


@click.command()
@_NAME
@_ADDRESS
@click.option("--leave", metavar="NODE", multiple=True, help="Move everything off this node (its id, or how that begins).")
@JSON
@reporting
def rebalance(job: str, address: str | None, leave: tuple[str, ...], as_json: bool) -> None:
    """Move tasks, with their state, so that each node has as many."""
    from raystreams.cluster.submission import rebalance as move

    with _cluster(address):
        moves = move(_job_name(job), leave)
    if as_json:
        print_json({str(partition): node for partition, node in moves.items()})
        return
    for partition, node in moves.items():
        click.echo(f"partition {partition} moves to node {node[:8]}")
    if not moves:
        click.echo("nothing to move")


@click.command()
@_NAME
@_ADDRESS
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Only this partition's task.")
@click.option("--follow", is_flag=True, help="Go on until the job is over.")
@reporting
def logs(job: str, address: str | None, partition: int | None, follow: bool) -> None:
    """Print what a job's manager and its tasks have said: starts, restarts, failures, and what user functions print."""
    from raystreams.cluster.logs import lines_of

    with _cluster(address), terminating():
        for line in lines_of(_job_name(job), partition, follow=follow):
            click.echo(line)


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    from raystreams.cluster.submission import LOCAL, joined

    if address == LOCAL:
        raise click.UsageError("--address local is for submit: the cluster that it starts ends with its job")
    with joined(address):
        yield


def _job_name(job: str) -> str:
    """A job is named, or its file is given."""
    if not job.endswith(".toml"):
        return job
    from raystreams.cluster.toml_tables import read_tables

    name: Any = read_tables(Path(job)).single["job"].settings["name"].value
    return str(name)


CLUSTER_COMMANDS = (submit, list_jobs, status, stop, pause, resume, rebalance, logs)
