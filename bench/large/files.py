"""Measure the driver's CPU for a commit of many data files, from the results of its tasks to the snapshot.

Each task writes one data file of 16 columns, and its result is pickled as by Spark. The upsert sink has a bucket for
each file, and commits three times. The first commit writes two new keys into each file. The second replaces one of
them, so that each file keeps one row. The third replaces that key again, which leaves the second commit's files without
rows. `vectors` is an upsert sink into a table of format version 3.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa

from bench.common import HOME, ROOT, show
from sinkql import compile as compile_sql
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Checkpoint, ClaimRequest, Context, Writer, WriteResult, WriteTask

_COLUMNS = 16
_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events ({columns}) FROM FILES (PATH = '{folder}/in') FORMAT JSON;
CREATE SINK s FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') {mode}
  WITH (COMMIT INTERVAL = '1s', FORMAT VERSION = {version});
"""
_MODES = {
    "append": ("ENVELOPE NONE", 2),
    "upsert": ("KEY (c0) NOT ENFORCED MODE UPSERT", 2),
    "vectors": ("KEY (c0) NOT ENFORCED MODE UPSERT", 3),
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--modes", default=",".join(_MODES))
    parser.add_argument("--profile", action="store_true", help="print where the time of each commit goes")


def run(arguments: argparse.Namespace) -> None:
    """Measure each mode."""
    sys.path.insert(0, str(ROOT / "tests"))
    lines = []
    for mode in _MODES:
        if mode in arguments.modes.split(","):
            for line in _measure(mode, arguments.files, profile=arguments.profile):
                lines.append((mode, *line))
                print(*lines[-1], flush=True)
    show([("sink", "commit", "files", "pickled KB", "unpickle ms", "begin ms", "commit ms", "CPU-s"), *lines])


def _measure(mode: str, files: int, *, profile: bool) -> Iterator[tuple[str, ...]]:
    folder = HOME / f"files-{mode}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "state").mkdir(parents=True)
    writer, job = _open(mode, folder)
    checkpoint = writer.claim(ClaimRequest({"events": {}}, epoch=1))
    rounds = ("rows",) if mode == "append" else ("new keys", "old keys", "old keys")
    for number, what in enumerate(rounds):
        checkpoint = writer.refresh()
        began = time.process_time()
        task = writer.begin(bucketing="local", buckets=files)
        begun = time.process_time() - began
        given = [pickle.dumps(_result(job, task, bucket, number)) for bucket in range(files)]
        size = sum(map(len, given))
        began = time.process_time()
        results: list[WriteResult] = [pickle.loads(each) for each in given]
        unpickled = time.process_time() - began
        checkpoint = replace(
            checkpoint, commit=task.commit, start=checkpoint.end, end={"events": {"batch": number}}, plan=job.plan
        )
        began = time.process_time()
        committed = _commit(writer, task, results, checkpoint, profile=profile)
        spent = time.process_time() - began
        yield (
            what,
            f"{committed:,}",
            f"{size / 1024:,.0f}",
            *(f"{each * 1000:,.0f}" for each in (unpickled, begun, spent)),
            f"{begun + unpickled + spent:.2f}",
        )


def _open(mode: str, folder: Path) -> tuple[Writer, physical.Job]:
    clauses, version = _MODES[mode]
    columns = ", ".join(f"c{number} bigint{' NOT NULL' if number == 0 else ''}" for number in range(_COLUMNS))
    text = _SCRIPT.format(folder=folder, columns=columns, mode=clauses, version=version)
    job: physical.Job = compile_sql(text, facts={"s": {"sink_id": f"f{uuid4().hex[:6]}"}}).jobs[0]
    context = Context(job.sink, job.sink_id, folder / "state", lambda _: "")
    writer = discover().writer(job.write, context)
    writer.open()
    return writer, job


def _result(job: physical.Job, task: WriteTask, bucket: int, number: int) -> WriteResult:
    """Run a task with rows of two keys in the first commit, and of one of them afterwards."""
    keys = [2 * bucket, 2 * bucket + 1] if number == 0 else [2 * bucket]
    columns = [pa.array(np.array(keys) + place) for place in range(len(job.write.columns))]
    names = [column.name for column in job.write.columns]
    if job.write.mode == "upsert":
        columns.append(pa.array(np.arange(len(keys), dtype=np.int64)))
        names.append("$seq")
    return task(bucket, "t0", iter([pa.RecordBatch.from_arrays(columns, names=names)]))


def _commit(
    writer: Writer, task: WriteTask, results: list[WriteResult], checkpoint: Checkpoint, *, profile: bool
) -> int:
    if not profile:
        return writer.commit(task, results, checkpoint).files
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    files = profiler.runcall(writer.commit, task, results, checkpoint).files
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
    return files
