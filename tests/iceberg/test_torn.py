"""Truncated, corrupted, swapped or missing files of a table: the next run is correct or names the file."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from sinkql.connector_api.stream import StaleFilesError
from sinkql.connectors.iceberg.commit import lineage, manifest_cache
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.file.manifest import manifests_of
from sinkql.connectors.iceberg.key_index import index, run
from sinkql.connectors.iceberg.table.target import Patience
from sinkql.errors import LostIndexError, SinkqlError
from support.damage import damage
from support.eager import compact_eagerly
from support.lake import Lake, Sink
from support.readers import Rows, pyiceberg_rows

pytestmark = pytest.mark.long

KINDS = {"append": (False, 2), "upsert": (True, 2), "vectors": (True, 3)}
NEXT = ((2, "next"), (50, "next"))
_CACHES = (lineage._trace_left, manifest_cache._contents, run.open_run, index.open_index)


@pytest.fixture(autouse=True)
def eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_eagerly(monkeypatch)
    monkeypatch.setattr(Patience, "wait", lambda self, failures: None)


class Damaged:
    """A table of one kind, another one beside it, and copies of both to restore."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.upsert, self.version = KINDS[kind]
        self.lake = Lake(folder / "lake")
        for name in ("t", "other"):
            sink = self.sink(name)
            sink.start()
            for batch in range(4):
                sink.put(*((key, f"{name}{batch}") for key in range(batch, 30, 2)))
        self.before = Path(shutil.copytree(folder / "lake", folder / "before"))
        self.files = self._files()

    def sink(self, name: str = "t", folder: Path | None = None) -> Sink:
        options = {"format_version": self.version}
        return Sink(self.lake, name, id=name, upsert=self.upsert, options=options, folder=folder)

    def _files(self) -> list[list[Path]]:
        """Return the files that the next run may read, grouped by kind."""
        table = self.lake.table("t")
        head = table.current_snapshot()
        assert head is not None
        live = live_files(table)
        named = [
            [table.metadata_location],
            [head.manifest_list],
            [each.manifest_path for each in manifests_of(table, head)],
            list(live.data),
            [file.file_path for file in live.deletes.values()],
        ]
        found = [[Path(each.removeprefix("file://")) for each in paths] for paths in named]
        found.append([path for path in (self.lake.folder / "state/t").rglob("*") if path.is_file()])
        return [sorted(path.relative_to(self.lake.folder) for path in paths) for paths in found if paths]

    def others(self, name: Path) -> list[Path]:
        """Return all files but this one with the same suffix."""
        found = (path for path in self.before.rglob(f"*{name.suffix}") if path.is_file())
        return sorted(path for path in found if path.relative_to(self.before) != name)

    def again(self) -> None:
        """Restore all files."""
        shutil.rmtree(self.lake.folder)
        shutil.copytree(self.before, self.lake.folder)
        self.forget()

    def forget(self) -> None:
        """Clear this process's caches of file contents."""
        for each in _CACHES:
            each.cache_clear()

    def rows(self) -> Rows:
        return sorted(pyiceberg_rows(self.lake.table("t")), key=repr)

    def run(self, folder: Path | None) -> None:
        """Run one batch like the batch loop, then the table's maintenance."""
        sink = self.sink(folder=folder)
        sink.start()
        for _ in range(3):
            try:
                sink.put(*NEXT)
                break
            except StaleFilesError:
                continue
            except LostIndexError:
                sink.writer.invalidate_index()
        else:
            raise AssertionError("the batch did not commit in three attempts")
        sink.writer.maintenance.maintain()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 150), marks=pytest.mark.soak)], ids=["", "more"])
def test_a_damaged_file_is_named_or_makes_no_difference(tmp_path: Path, kind: str, seeds: range) -> None:
    """A run commits nothing on top of a damaged file; once it is restored, the rows are complete."""
    table = Damaged(tmp_path, kind)
    table.run(None)
    expected = table.rows()
    for seed in seeds:
        table.again()
        chance = random.Random(f"{kind} {seed}")
        name = chance.choice(table.files[seed % len(table.files)])
        path = table.lake.folder / name
        data = path.read_bytes()
        how = damage(chance, path, table.others(name))
        error = None
        try:
            table.run(chance.choice([None, tmp_path / f"host{seed}"]))
        except SinkqlError as caught:
            error = caught
        said = f"{seed}: {name} {how}: {error}"
        path.write_bytes(data)
        table.forget()
        if error is not None:
            assert error.code in ("SQ3530", "SQ3555", "SQ3556", "SQ3411"), said
            assert name.name in f"{error.message} {error.detail}", said
            table.run(None)
        assert table.rows() == expected, said
