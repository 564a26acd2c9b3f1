"""Measure the search for new files, in a folder and in S3, and the growth of the processed-files log.

    python -m bench.files [--commits 3600] [--polls 20]

For folders of 1,000, 10,000 and 100,000 files, prints the number of batches until they are processed and the CPU of a
batch. Then prints the CPU of the first listing in a new process, of a poll without news after a quiet period, and of a
poll with one new file, all in milliseconds, and the peak memory of this process. Repeats this for an S3 bucket, whose
listing pages this process generates without a network.

Finally makes `--commits` commits of one file each. Prints the bytes of the processed-files log: as written by the
commits, as left by the last sweep, at most, and as a single list of all files.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.common import HOME, median
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Limit, Offsets
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.object_listing import Bucket
from sinkql.connectors.files.reader import FilesReader
from sinkql.logical.type import BIGINT
from sinkql.physical import Column

_SWEEP_EVERY = 20
_SETTLED_S = 2.5  # an unchanged folder is not listed again after this time
_ALL = Limit(1 << 40, 1 << 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=3600)
    parser.add_argument("--polls", type=int, default=20)
    arguments = parser.parse_args()
    home = HOME / "files"
    for files in (1_000, 10_000, 100_000):
        _polls(home, files, arguments.polls)
        _bucket_polls(home, files, arguments.polls)
    with patch("os.fsync"):  # only bytes count here, not the time of a disk
        _growth(home, arguments.commits)


def _reader(home: Path, place: Bucket | None = None) -> FilesReader:
    decoding = discover().formats["JSON"].decoding
    columns, format_ = (Column("n", BIGINT),), {"name": "JSON", "whole": False}
    folder = place or Folder(home / "in", "*", False)
    return FilesReader("s", folder, home / "state", "files", columns, format_, decoding, "fail", None)


def _put(home: Path, number: int) -> None:
    path = home / "in" / f"{number:07}.json"
    path.write_text('{"n": 1}\n')
    os.utime(path, (1_700_000_000, 1_700_000_000))


def _polls(home: Path, files: int, polls: int) -> None:
    shutil.rmtree(home, ignore_errors=True)
    (home / "in").mkdir(parents=True)
    for number in range(files):
        _put(home, number)
    print(f"{files:>7,} files   {_told(lambda: _reader(home), polls, lambda number: _put(home, files + number))}")


def _bucket_polls(home: Path, files: int, polls: int) -> None:
    shutil.rmtree(home, ignore_errors=True)
    made = _Pages(files)
    print(f"{files:>7,} objects {_told(lambda: _of_bucket(home, made), polls, made.add)}")


def _told(opened: Callable[[], FilesReader], polls: int, put: Callable[[int], object]) -> str:
    reader = opened()
    at, batches = reader.initial(at_end=False), []
    while True:
        spent, there = _timed(reader, at)
        if there == at:
            break
        batches.append(spent)
        at = there
    start, _ = _timed(opened(), at)
    time.sleep(_SETTLED_S)
    _timed(reader, at)
    idle, one = [_timed(reader, at)[0] for _ in range(polls)], []
    for number in range(polls):
        put(number)
        spent, at = _timed(reader, at)
        one.append(spent)
    caught = f"{len(batches)} batches, {median(batches):.0f} CPU-ms each"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return (
        f"{caught}; {start:.0f} CPU-ms at a start, {median(idle):.1f} a poll without news, "
        f"{median(one):.1f} with one new file; {memory} MB"
    )


def _timed(reader: FilesReader, at: Offsets) -> tuple[float, Offsets]:
    began = time.process_time()
    there = reader.latest(at, _ALL)
    return (time.process_time() - began) * 1000, there


class _Keys:
    def properties(self) -> Mapping[str, str]:
        return {"s3.access-key-id": "a", "s3.secret-access-key": "b"}

    def renew(self) -> None:
        pass


class _Pages:
    """The responses of a store that has `count` objects."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.bodies: dict[tuple[int, int, bool], bytes] = {}

    def add(self, number: int) -> None:
        self.count += 1

    def answer(self, request: Any, **_: Any) -> Any:  # botocore has no types
        from botocore.awsrequest import AWSResponse

        found = re.search(r"continuation-token=(\d+)", request.url)
        first = int(found[1]) if found else 0
        last = min(first + 1000, self.count)
        page = first, last, last < self.count
        if page not in self.bodies:
            self.bodies[page] = self.body(first, last).encode()
        return AWSResponse(request.url, 200, {}, _Raw(self.bodies[page]))

    def body(self, first: int, last: int) -> str:
        rows = "".join(
            f"<Contents><Key>p/{each:07}.json</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{each:032x}&quot;</ETag><Size>9</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for each in range(first, last)
        )
        more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < self.count else ""
        return f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{more}{rows}</ListBucketResult>'


class _Raw(io.BytesIO):
    def stream(self) -> Iterator[bytes]:
        yield self.read()


def _of_bucket(home: Path, made: _Pages) -> FilesReader:
    place = Bucket.of("s3://b/p", "*", False, _Keys())
    place._open_client().meta.events.register("before-send.s3.ListObjectsV2", made.answer)
    return _reader(home, place)


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
            for name in reader.removable_files([before, at], before=time.time() + 1):
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
