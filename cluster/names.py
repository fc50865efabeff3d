"""Names in a Ray cluster: of actors, and of rows in its key-value store. All jobs are in one namespace."""

from __future__ import annotations

NAMESPACE = "raystreams"


def manager_name(job: str) -> str:
    """Return the name of a job's manager."""
    return f"{job}/manager"


def task_name(job: str, partition: int, number: int) -> str:
    """Return the name of an actor that holds a partition; `number` is one that no other actor of the job had."""
    return f"{job}/{partition}/{number}"


def record_key(job: str) -> bytes:
    """Return the key of a job's record."""
    return f"job/{job}".encode()


def bundle_key(job: str) -> bytes:
    """Return the key of a job's code."""
    return f"code/{job}".encode()


RECORDS = b"job/"
"""What all keys of records begin with."""
