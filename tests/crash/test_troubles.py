"""Something is missing for a while: the error names it, and the sink continues without help once it is back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from crash import verify
from crash.child import open_loop
from crash.pipeline import Pipeline, write_input
from crash.test_maintained import drain
from sinkql.connectors.iceberg.table.target import Patience
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop

Back = Callable[[], object]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "wait", lambda self, failures: None)


def _table_dropped(folder: Path) -> Back:
    catalog, location = _catalog(folder), verify.load(folder).metadata_location
    catalog.drop_table("n.t")
    return lambda: catalog.register_table("n.t", location)


def _namespace_dropped(folder: Path) -> Back:
    catalog, back = _catalog(folder), _table_dropped(folder)
    catalog.drop_namespace("n")

    def again() -> None:
        catalog.create_namespace("n")
        back()

    return again


def _moved(path: Path) -> Back:
    away = path.with_name("away")
    path.rename(away)

    def back() -> None:
        if path.is_dir():
            path.rmdir()  # a start recreates the warehouse folder
        away.replace(path)

    return back


TROUBLES: dict[str, tuple[Callable[[Path], Back], str, str]] = {
    "table": (_table_dropped, "SQ3503", 'table "n.t" was dropped'),
    "namespace": (_namespace_dropped, "SQ3503", 'table "n.t" was dropped'),
    "warehouse": (lambda folder: _moved(folder / "lake"), "SQ3556", 'a file of table "n.t" is missing'),
    "metadata": (lambda folder: _moved(folder / "lake/n/t/metadata"), "SQ3556", 'a file of table "n.t" is missing'),
    "database": (lambda folder: _moved(folder / "lake.db"), "SQ4201", "does not answer"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_running_sink_continues_when_what_was_gone_is_back(tmp_path: Path, trouble: str) -> None:
    away, code, message = TROUBLES[trouble]
    pipeline, loop = _running(tmp_path)
    back = away(tmp_path)
    with pytest.raises(SinkqlError, match=message) as caught:
        drain(loop)
    assert (caught.value.code, caught.value.retryable) == (code, True)
    assert "\n" not in caught.value.message
    back()
    drain(loop)
    verify.check_rows(pipeline)
    verify.check_index(pipeline)


@pytest.mark.share(2)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_sink_that_is_started_meanwhile_recreates_no_table(tmp_path: Path, trouble: str) -> None:
    away, code, _ = TROUBLES[trouble]
    pipeline, _ = _running(tmp_path)
    back = away(tmp_path)
    with pytest.raises(SinkqlError) as caught:
        open_loop(pipeline).start(epoch=1)
    assert caught.value.code == ("SQ3503" if trouble == "database" else code)
    back()
    again = open_loop(pipeline)
    again.start(epoch=1)
    drain(again)
    verify.check_rows(pipeline)


def test_a_table_made_in_the_place_of_the_sinks_is_not_written_to(tmp_path: Path) -> None:
    pipeline, loop = _running(tmp_path)
    schema = verify.load(tmp_path).schema()
    catalog = _catalog(tmp_path)
    catalog.drop_table("n.t")
    catalog.create_table("n.t", schema)
    for begin in (lambda: drain(loop), lambda: open_loop(pipeline).start(epoch=1)):
        with pytest.raises(SinkqlError, match="was dropped and created again") as caught:
            begin()
        assert caught.value.code == "SQ3503"
    assert verify.load(tmp_path).current_snapshot() is None


def _running(folder: Path) -> tuple[Pipeline, BatchLoop]:
    """Return a sink that has committed and has more input."""
    pipeline = Pipeline(folder, "upsert")
    write_input(folder)
    loop = open_loop(pipeline)
    loop.start(epoch=1)
    drain(loop)
    write_input(folder, first=200, rows=40)
    return pipeline, loop


def _catalog(folder: Path) -> Catalog:
    return verify.load(folder).catalog
