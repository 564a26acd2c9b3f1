"""Check a pipeline's table and folders after kills and failures."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from crash.pipeline import Pipeline, expected
from sinkql.connector_api.stream import Checkpoint
from sinkql.connectors.iceberg.commit.checkpoint import ancestry, find, own_checkpoint
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.key_hash import key_columns
from sinkql.connectors.iceberg.key_index.rebuild import build_index
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import bucket_folder
from sinkql.runtime.state.run import open_run
from support.index import live_entries
from support.readers import duckdb_folder, pyiceberg_rows


def load(folder: Path) -> Table:
    """Open the table as another program would."""
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
    return catalog.load_table("n.t")


def at(pipeline: Pipeline) -> Table:
    """Return the table, on the pipeline's branch if it has one."""
    table = load(pipeline.folder)
    return BranchTable(table, pipeline.branch) if pipeline.branch is not None else table


def checkpoint(pipeline: Pipeline) -> Checkpoint:
    """Return the checkpoint in the pipeline's table."""
    kept = find(at(pipeline), pipeline.sink_id)
    assert kept is not None
    return kept.checkpoint


def check_rows(pipeline: Pipeline) -> None:
    """Check that two readers return the rows that DuckDB computes; for a changelog, at each of its times."""
    kind, folder = pipeline.what, pipeline.folder
    columns = (*kind.columns, "_mz_diff", "_mz_timestamp") if kind.changelog else kind.columns
    table = at(pipeline)
    head = table.metadata.current_snapshot_id if pipeline.branch is not None else None
    found = duckdb_folder(table.location(), ", ".join(columns), snapshot=head)
    assert found == pyiceberg_rows(table, columns)
    if kind.changelog:
        _check_changelog(pipeline, found)
        return
    rows = expected(folder, pipeline.kind, anew=pipeline.anew)
    if kind.picked:
        assert Counter({row[0] for row in rows}) == Counter(row[0] for row in found)
        assert Counter(found) <= rows
        return
    assert rows == Counter(found)


def _check_changelog(pipeline: Pipeline, rows: Sequence[tuple[Any, ...]]) -> None:
    states = [expected(pipeline.folder, pipeline.kind, upto=upto) for upto in _ends(pipeline)]
    present: Counter[tuple[Any, ...]] = Counter()
    for time in sorted({row[-1] for row in rows}):
        for *row, diff, _ in (row for row in rows if row[-1] == time):
            present[tuple(row)] += diff
        assert all(count >= 0 for count in present.values())
        assert states.pop(0) == +present
    assert states == []


def _ends(pipeline: Pipeline) -> Iterator[int]:
    """Yield the total number of rows at the end of each batch; a run reads the two files added before it."""
    whole = 0
    files = sorted((pipeline.folder / "in").glob("*-?.json"))
    for first, second in zip(files[::2], files[1::2], strict=True):
        begin, whole = whole, whole + sum(len(each.read_text().splitlines()) for each in (first, second))
        yield from (
            min(whole, end)
            for end in range(begin + pipeline.batch_rows, whole + pipeline.batch_rows, pipeline.batch_rows)
        )


def check_commits(pipeline: Pipeline, batches: int | None = None) -> None:
    """Check that each of the batches has one commit, which starts at its predecessor's end offsets."""
    ends = []
    offsets: list[dict[str, Any]] = []
    seen = set()
    for snapshot in reversed(list(ancestry(at(pipeline)))):
        values = own_checkpoint(snapshot, pipeline.sink_id)
        if values is None or values["commit"] in seen:
            continue  # claims repeat the commit before them
        seen.add(values["commit"])
        offsets.append(json.loads(values["offsets"]))
    for before, after in itertools.pairwise(offsets):
        assert before["end"] == after["start"]
        ends.append(after["end"])
    assert batches in (None, len(ends))


def check_files(folder: Path) -> None:
    """Check that snapshots or readers reference every file in the table's folder."""
    table = load(folder)
    known = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        known.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            known |= {manifest.manifest_path, *(entry.data_file.file_path for entry in entries)}
    names = {path.rpartition("/")[2] for path in known} | {"version-hint.text"}
    there = {path.name for path in (folder / "lake" / "n" / "t").rglob("*") if path.is_file()}
    left = {name for name in there - names if not (name.startswith("_sinkql-") and name.endswith(".stats"))}
    assert not left, left


def check_index(pipeline: Pipeline) -> None:
    """Check that the checkpoint's index is complete and equals an index rebuilt from the table."""
    name = checkpoint(pipeline).index
    table = at(pipeline)
    if "upsert" not in pipeline.what.clauses.lower():
        assert name is None
        return
    assert name is not None
    key = key_columns(table, pipeline.what.columns[:1])
    folder = pipeline.state / "index"
    index = Index.load(folder, name, key)
    assert index is not None
    again = pipeline.folder / "rebuilt"
    assert _places(build_index(table, key, again, sink=pipeline.sink_id, epoch=1), again) == _places(index, folder)


def _places(index: Index, folder: Path) -> list[tuple[int, int, str, int]]:
    entries = live_entries(index, folder)
    paths = [index.files[int(file)].path for file in entries.file]
    return list(zip(entries.h1.tolist(), entries.h2.tolist(), paths, entries.pos.tolist(), strict=True))


def check_state(pipeline: Pipeline) -> Sequence[Mapping[str, Any]]:
    """Check that the checkpoint's state is complete; return the digests of its runs by arrangement.

    The arrangements' names are left out because they depend on the input path.
    """
    name = checkpoint(pipeline).state
    return check_state_of(pipeline, name) if name is not None else []


def check_state_of(pipeline: Pipeline, name: str) -> Sequence[Mapping[str, Any]]:
    """Check that the named state is complete; return the same as `check_state`."""
    arrangements = state.load(pipeline.state, name)["arrangements"]
    for arrangement, buckets in arrangements.items():
        for bucket, entries in buckets.items():
            for entry in entries:
                open_run(bucket_folder(pipeline.state, arrangement, int(bucket)), entry)
    found = [{b: [run["digest"] for run in runs] for b, runs in each.items()} for each in arrangements.values()]
    return sorted(found, key=repr)
