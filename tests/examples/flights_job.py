"""The flights example, copied to a folder of its own with some settings changed, and run by the command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"
COMMAND = Path(sys.executable).with_name("raystreams")


class FlightsJob:
    """A copy of the job in `folder`, reading `data` where it lies. `changes` are (pattern, replacement) on the job file."""

    def __init__(self, folder: Path, data: Path = EXAMPLE / "data", changes: Mapping[str, str] | None = None) -> None:
        self.folder, self.out = folder, folder / "out"
        self.file = folder / "job.toml"
        shutil.copyfile(EXAMPLE / "topology.py", folder / "topology.py")
        text = (EXAMPLE / "job.toml").read_text().replace('"data/', f'"{data}/')
        for pattern, replacement in (changes or {}).items():
            text, times = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            assert times, f"{pattern} is not in the job file"
        self.file.write_text(text)

    def command(self, name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Give a command about the job as a user does and return what the process left."""
        command = [str(COMMAND), name, str(self.file), *arguments]
        environment = os.environ | environment
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=900)

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the job, to its end if nothing stops it."""
        return self.command("run", **environment)

    def finish(self) -> str:
        """Run the job to its end and return what it printed."""
        done = self.run()
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def files(self) -> dict[str, bytes]:
        """Return the output files' contents by their path below `out`."""
        return {str(path.relative_to(self.out)): path.read_bytes() for path in self.out.rglob("*") if path.is_file()}
