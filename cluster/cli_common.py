"""What all commands share: how errors are told, how job files are loaded, how programs get JSON.

Errors of ours are one message on stderr without a traceback, and exit code 1; a wrong command line is 2; Ctrl-C commits what
was done and exits with 130, SIGTERM likewise with 143.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

import click
from raystreams.cluster.job_file import JobDescription, load_job_file
from raystreams.stores.errors import RaystreamsError

F = TypeVar("F", bound=Callable[..., Any])

JOB = click.argument("job", metavar="JOB.TOML", type=click.Path(path_type=Path))
PARAMS = click.option(
    "-P", "params", metavar="NAME=VALUE", multiple=True, help="An argument of build(), over those of [params]; may be repeated."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


class Stopped(KeyboardInterrupt):
    """SIGTERM: stop as at Ctrl-C."""


def reporting(command: F) -> F:
    """Tell errors of ours as a person would, and end with the code that says what happened."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except RaystreamsError as error:
            from raystreams.cluster.user_code import message_of

            fail(message_of(error))
        except BrokenPipeError:
            raise  # whoever reads has enough, as `head`: click ends quietly
        except OSError as error:
            # A full disk, a folder that may not be written: the system's words are clear enough.
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except (TypeError, ValueError) as error:
            # A key or value of another type than declared, where no operator of the user's was at work.
            if os.environ.get("RAYSTREAMS_TRACEBACK"):
                raise
            fail(f"{type(error).__name__}: {error} (RAYSTREAMS_TRACEBACK=1 shows where)")
        except Stopped:
            click.echo("stopped; what was done is committed", err=True)
            sys.exit(143)
        except KeyboardInterrupt:
            click.echo("stopped; what was done is committed", err=True)
            sys.exit(130)

    return run  # type: ignore[return-value]  # the same signature


def fail(text: str) -> NoReturn:
    click.echo(f"error: {text}", err=True)
    sys.exit(1)


def load(job: Path, params: tuple[str, ...]) -> JobDescription:
    arguments = {}
    for param in params:
        name, separator, value = param.partition("=")
        if not separator or not name:
            raise click.UsageError(f"-P {param}: write NAME=VALUE")
        arguments[name.strip()] = value
    return load_job_file(job, arguments=arguments)


@contextmanager
def terminating() -> Iterator[None]:
    """Stop at SIGTERM as at Ctrl-C."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, ensure_ascii=False))
