"""What looking for new files costs, and how the list of read files grows.

    python -m bench.files [--commits 3600] [--polls 20]

Prints CPU milliseconds of a poll over folders of 1,000, 20,000 and 100,000 files that were read, where nothing is new
and where one file is; and, after so many commits of one file each, the bytes of the list in the state folder, as a
commit writes them, as the sweep leaves them, and as one list of all files would take them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path
from unittest.mock import patch

from bench.common import HOME, median
from sinkql.connectors.files.folder import Folder
from sinkql.connectors.files.reader import FilesReader
from sinkql.extension.registry import discover
from sinkql.extension.stream import Limit
from sinkql.physical import Column

_SWEEP_EVERY = 20
_ALL = Limit(1 << 40, 1 << 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=3600)
    parser.add_argument("--polls", type=int, default=20)
    arguments = parser.parse_args()
    home = HOME / "files"
    for files in (1_000, 20_000, 100_000):
        idle, one = _polls(home, files, arguments.polls)
        print(f"{files:>7,} files: {idle:.1f} CPU-ms a poll without news, {one:.1f} with one new file")
    with patch("os.fsync"):  # bytes are counted here, and not a disk's time
        _growth(home, arguments.commits)


def _reader(home: Path) -> FilesReader:
    decoding = discover().formats["JSON"].decoding
    columns, format_ = (Column("n", "bigint"),), {"name": "JSON", "whole": False}
    folder = Folder(home / "in", "*", False)
    return FilesReader("s", folder, home / "state", "files", columns, format_, decoding, True, False, None)


def _put(home: Path, number: int) -> None:
    path = home / "in" / f"{number:07}.json"
    path.write_text('{"n": 1}\n')
    os.utime(path, (1_700_000_000, 1_700_000_000))


def _polls(home: Path, files: int, polls: int) -> tuple[float, float]:
    shutil.rmtree(home, ignore_errors=True)
    (home / "in").mkdir(parents=True)
    for number in range(files):
        _put(home, number)
    reader = _reader(home)
    at = reader.latest(reader.initial(at_end=False), _ALL)
    reader.latest(at, _ALL)  # the first look asks for all there is to know
    idle, one = [], []
    for number in range(polls):
        began = time.process_time()
        assert at == reader.latest(at, _ALL)
        idle.append((time.process_time() - began) * 1000)
        _put(home, files + number)
        began = time.process_time()
        at = reader.latest(at, _ALL)
        one.append((time.process_time() - began) * 1000)
    return median(idle), median(one)


def _growth(home: Path, commits: int) -> None:
    shutil.rmtree(home, ignore_errors=True)
    (home / "in").mkdir(parents=True)
    reader, written, most = _reader(home), 0, 0
    at = before = reader.initial(at_end=False)
    log = home / "state" / "files"
    for number in range(commits):
        _put(home, number)
        known = set(os.listdir(log)) if log.exists() else set()
        before, at = at, reader.latest(at, _ALL)
        written += sum((log / name).stat().st_size for name in os.listdir(log) if name not in known)
        if number % _SWEEP_EVERY == _SWEEP_EVERY - 1:
            most = max(most, _size(log))
            for name in reader.unneeded([before, at], before=time.time() + 1):
                (home / "state" / name).unlink()
    one = sum(len(file.name) + 100 for file in reader.log.seen(at["log"]).values())
    print(
        f"{commits:,} commits: {written / 1e6:.1f} MB written in all, {_size(log) / 1e6:.2f} MB left, "
        f"{most / 1e6:.2f} MB at most; {one / 1e6:.2f} MB as one list"
    )


def _size(log: Path) -> int:
    return sum(path.stat().st_size for path in log.iterdir())


if __name__ == "__main__":
    main()
