"""Spark runs all of Iceberg's maintenance on tables of running sinks; afterwards all readers read the same rows."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crash import verify
from crash.child import open_loop
from crash.pipeline import KINDS, ROWS, Pipeline, write_input
from crash.test_maintained import drain
from support.eager import compact_eagerly
from support.readers import Rows, duckdb_folder, other_rows, polars_rows, sorted_rows

pytestmark = pytest.mark.soak

_ROUNDS = 3
_TESTS = Path(__file__).parents[1]


def test_spark_maintains_the_tables_of_running_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compact_eagerly(monkeypatch)
    pipelines = [
        Pipeline(tmp_path / kind, kind, eager=True) for kind in ("append", "upsert", "parts", "chain", "vectors")
    ]
    loops = []
    for pipeline in pipelines:
        pipeline.folder.mkdir()
        write_input(pipeline.folder)
        loops.append(open_loop(pipeline))
        loops[-1].start(epoch=1)
        drain(loops[-1])
    folders = [str(pipeline.folder) for pipeline in pipelines]
    command = [sys.executable, "-m", "support.spark_maintenance", str(_ROUNDS), *folders]
    spark = subprocess.Popen(command, cwd=_TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        done: Counter[tuple[str, bool]] = Counter()
        maintained = threading.Thread(target=_follow, args=(spark, done))
        maintained.start()
        for number in itertools.count(1):
            for pipeline, loop in zip(pipelines, loops, strict=True):
                write_input(pipeline.folder, first=number * ROWS, rows=40)
                drain(loop)
            maintained.join(0.5)  # about the pause of a sink between two commits
            if not maintained.is_alive():
                break
        assert sum(count for (_, given_up), count in done.items() if not given_up) > 2 * _ROUNDS * (len(pipelines) - 1)
        for pipeline in pipelines:
            verify.check_rows(pipeline)
            verify.check_index(pipeline)
            verify.check_state(pipeline)
            _check_readers(pipeline, spark)
    finally:
        spark.kill()
        spark.wait()


def _follow(spark: subprocess.Popen[str], done: Counter[tuple[str, bool]]) -> None:
    """Count Spark's actions until it has finished."""
    assert spark.stdout is not None
    for line in spark.stdout:
        told: dict[str, Any] = json.loads(line)
        if "done" in told:
            return
        done[told["action"], told["given_up"] is not None] += 1
    raise AssertionError("Spark ended early")


def _check_readers(pipeline: Pipeline, spark: subprocess.Popen[str]) -> None:
    """Check that Polars, Spark, Daft and DataFusion read the same rows as DuckDB."""
    table = verify.load(pipeline.folder)
    names = ", ".join(field.name for field in table.schema().fields)
    assert set(names.split(", ")) == set(KINDS[pipeline.kind].columns)
    expected = duckdb_folder(table.location(), names)
    assert expected == polars_rows(table, tuple(names.split(", ")))
    assert expected == _spark_rows(spark, table.metadata_location)
    others = other_rows(table)
    assert others == dict.fromkeys(others, expected)


def _spark_rows(spark: subprocess.Popen[str], location: str) -> Rows:
    assert spark.stdin is not None
    assert spark.stdout is not None
    spark.stdin.write(f"{location}\n")
    spark.stdin.flush()
    return sorted_rows([tuple(row) for row in json.loads(spark.stdout.readline())])
