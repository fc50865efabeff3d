"""The command `raystreams`, and its commands for jobs in this process. Each loads a job file and asks one part of the cluster
layer; nothing is decided here.

What is imported here is imported by every command: so Ray, pyarrow and rich are not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from raystreams.cluster.cli_cluster import CLUSTER_COMMANDS
from raystreams.cluster.cli_common import JOB, JSON, PARAMS, fail, load, print_json, reporting, terminating


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="raystreams")
def main() -> None:
    """Kafka Streams' processing model in Python."""


@main.command()
@JOB
@PARAMS
@JSON
@reporting
def run(job: Path, params: tuple[str, ...], as_json: bool) -> None:
    """Run a job in this process until its sources end. Started again, it goes on where it was."""
    from raystreams.cluster.job import Job
    from raystreams.cluster.terminal import shown, summary_data, summary_text

    described = load(job, params)
    with terminating(), shown(sys.stderr, quiet=as_json) as show:
        summary = Job.of(described).run(progress=show).summary
    if as_json:
        print_json(summary_data(described.name, summary))
    else:
        click.echo(summary_text(described.name, summary))


@main.command()
@JOB
@PARAMS
@click.option("--mermaid", is_flag=True, help="As a Mermaid flow chart.")
@JSON
@reporting
def describe(job: Path, params: tuple[str, ...], mermaid: bool, as_json: bool) -> None:
    """Show a job's topology: processors, stores, and where records change partitions."""
    topology = load(job, params).topology
    if as_json:
        print_json(
            {
                "nodes": [
                    {
                        "name": node.name,
                        "operator": type(node.operator).__name__,
                        "parents": node.parents,
                        "stores": node.stores,
                        "sub_topology": topology.sub_topology_of[node.name],
                    }
                    for node in topology.nodes.values()
                ],
                "stores": {
                    name: {**builder.identity(), "global": name in topology.global_stores}
                    for name, builder in topology.stores.items()
                },
                "channels": {name: channel.source for name, channel in topology.channels.items()},
            }
        )
    else:
        click.echo(topology.to_mermaid() if mermaid else topology.describe())


@main.command()
@JOB
@click.argument("store")
@click.argument("key", required=False)
@click.option("--as-of", metavar="TIME", help="The row as it was then: ISO 8601 with a zone, or milliseconds. Versioned stores.")
@click.option("--history", is_flag=True, help="All versions of the row. Versioned stores.")
@click.option("--range", "bounds", nargs=2, metavar="FIRST LAST", help="The rows of keys from FIRST to LAST, both included.")
@click.option("--all", "everything", is_flag=True, help="All rows.")
@click.option("--reverse", is_flag=True, help="From the last to the first.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N rows.")
@PARAMS
@JSON
@reporting
def query(
    job: Path,
    store: str,
    key: str | None,
    as_of: str | None,
    history: bool,
    bounds: tuple[str, str] | None,
    everything: bool,
    reverse: bool,
    limit: int | None,
    params: tuple[str, ...],
    as_json: bool,
) -> None:
    """Read a store of a stopped job.

    KEY is the text itself where the keys are text, else JSON, such as 7 or '["eu", 1]'.
    """
    from itertools import islice

    from raystreams.cluster.query import Question, as_text, ask, builder_of
    from raystreams.cluster.state_dir import stopped

    if (key is not None) + (bounds is not None) + everything != 1:
        raise click.UsageError("give a KEY, or --range FIRST LAST, or --all")
    if key is None and (as_of is not None or history):
        raise click.UsageError("--as-of and --history want a KEY")
    if as_of is not None and history:
        raise click.UsageError("give --as-of or --history: one row as it was, or all versions of it")
    described = load(job, params)
    builder_of(described.topology, store)
    question = Question(key=key, range=bounds, all=everything, as_of=_time(as_of), history=history, reverse=reverse)
    with stopped(described.state_dir, described.name, described.partitions) as databases:
        found = 0
        for row in islice(ask(described.topology, databases, store, question), limit):
            found += 1
            click.echo(json.dumps(row, ensure_ascii=False) if as_json else as_text(row))
    if not found and key is not None:
        fail(f"{store} has no row of the key {key}" + ("" if as_of is None else f" at {as_of}"))


@main.command()
@JOB
@PARAMS
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@reporting
def reset(job: Path, params: tuple[str, ...], yes: bool) -> None:
    """Forget a job's state and positions: the next run begins anew, and replaces the outputs."""
    from raystreams.cluster.state_dir import forget, has_state

    described = load(job, params)
    if described.state_dir is None or not has_state(described.state_dir):
        click.echo(f"{described.name} has no state")
        return
    if not yes:
        click.confirm(f"Delete the state of {described.name} in {described.state_dir}?", abort=True)
    count = forget(described.state_dir, described.name, described.partitions)
    click.echo(f"forgot the state of {described.name}: {count} partition{'' if count == 1 else 's'}")


@main.command()
@JOB
@click.option("--against", metavar="DIR", type=click.Path(path_type=Path), help="Another state directory than the job's own.")
@click.option("--deep", is_flag=True, help="Read every row, to find damage.")
@PARAMS
@JSON
@reporting
def check(job: Path, against: Path | None, deep: bool, params: tuple[str, ...], as_json: bool) -> None:
    """Say what becomes of a job's existing state: kept, renamed, new, gone or refused."""
    from raystreams.cluster.state_report import check_state

    described = load(job, params)
    report = check_state(described, against or described.state_dir, deep=deep)
    if as_json:
        print_json(report.as_data())
    else:
        click.echo(report.as_text())
    if report.is_refused:
        sys.exit(1)


def _time(text: str | None) -> Any:
    if text is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text)
    from raystreams.cluster.config import parse_time

    try:
        return parse_time(text)
    except ValueError as error:
        raise click.UsageError(f"--as-of: {error}") from error


for _command in CLUSTER_COMMANDS:
    main.add_command(_command)
