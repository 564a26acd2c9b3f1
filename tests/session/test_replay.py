"""REPLAY ERRORS: a session requests it, and the process that runs the sink executes it, now or later."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from sinkql.catalog.secret.cipher import KEY_VARIABLE
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.sink.requests import run_replay_request
from sinkql.session.session import Session
from sinkql.storage.key_value import FolderStore, KeyValueStore
from support.catalog import server_address
from support.patience import Deadline
from support.postgres import Postgres
from support.readers import duckdb_folder
from support.running import drain, loop_of

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (k bigint, v {type}) FROM FILES (PATH = '{folder}/in') FORMAT {format}
  WITH (ON ERROR = DEAD LETTER);
CREATE SINK s FROM events INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') {mode}
  WITH (COMMIT INTERVAL = '1s'{with_});
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "in").mkdir()
    with Session(tmp_path / "catalog.db") as found:
        yield found


def _script(session: Session, folder: Path, format_: str, *, mode: str = "MODE APPEND", type_: str = "bigint") -> None:
    session.execute(_SCRIPT.format(folder=folder, format=format_, mode=mode, type=type_, with_=""))


def _started(session: Session) -> BatchLoop:
    (job,) = session.jobs()
    loop = loop_of(job, session.context(job), session.catalog.registry, control=session.catalog.control)
    loop.start(epoch=1, once=True)
    return loop


def _loop(session: Session) -> BatchLoop:
    """Commit all available data with a sink, and return its loop."""
    loop = _started(session)
    drain(loop)
    return loop


def _done(loop: BatchLoop, notes: KeyValueStore | None = None) -> None:
    run_replay_request(loop, notes or FolderStore(loop.folder), threading.Lock(), lambda: False)


def _asked_while_it_runs(session: Session, asking: Session, loop: BatchLoop) -> tuple[Any, ...]:
    """Run a sink while another session requests a replay; return that session's result."""
    asked, notes = threading.Event(), session.context(loop.job).notes
    session.catalog.control.acquire(loop.job.sink_id, owner="test", takeover=False)
    with ThreadPoolExecutor(1) as threads:

        def run() -> None:
            deadline = Deadline()
            while not asked.is_set():
                _done(loop, notes)
                deadline.check("an answer")

        running = threads.submit(run)
        try:
            (result,) = asking.execute("REPLAY ERRORS FROM events")
        finally:
            asked.set()
        running.result()
    session.catalog.control.release(loop.job.sink_id, owner="test")
    assert result.columns == ("sink", "replayed", "left")
    return tuple(result.rows)


def _correct(folder: Path, before: bytes, after: bytes) -> None:
    """Correct dead letters in their table, as another engine does."""
    lake = f"file://{folder}/lake"
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=lake)
    table = catalog.load_table("n.t__errors")
    rows = table.scan().to_arrow()
    place = rows.schema.get_field_index("raw")
    raw = pa.array([each.replace(before, after) for each in rows.column("raw").to_pylist()], rows.field(place).type)
    table.overwrite(rows.set_column(place, rows.field(place), raw))


def _rows(folder: Path, columns: str = "k, v", table: str = "t") -> list[tuple[Any, ...]]:
    return duckdb_folder(str(folder / "lake" / "n" / table), columns)


_FORMATS = {
    "JSON": ("JSON", ['{"k": 1, "v": 1}', '{"k": 2, "v": "x2"}', '{"k": 3, "v": "x"}'], b'"x2"', b"2"),
    "JSON ARRAY": (
        "JSON ARRAY",
        ['[{"k": 1, "v": 1},', '{"k": 2,', ' "v": "x2"},', '{"k": 3, "v": "x"}]'],
        b'"x2"',
        b"2",
    ),
    "CSV": ("CSV WITH 2 COLUMNS", ["1,1", "2,x2", "3,x"], b"x2", b"2"),
    "CSV, its columns in another order": ("CSV WITH HEADER", ["v,w,k", "1,,1", 'x2,"a\nb",2', "x,,3"], b"x2", b"2"),
}


@pytest.mark.parametrize("name", _FORMATS)
def test_records_that_were_corrected_are_rows(session: Session, tmp_path: Path, name: str) -> None:
    format_, lines, before, after = _FORMATS[name]
    (tmp_path / "in" / "a").write_text("\n".join(lines) + "\n")
    _script(session, tmp_path, format_)
    loop = _loop(session)
    assert _rows(tmp_path) == [(1, 1)]
    (result,) = session.execute("REPLAY ERRORS FROM events")
    assert (result.rows, [each.code for each in result.notices]) == ((("s", None, None),), ["SQ2355"])
    _done(loop)  # no dead letter decodes yet
    assert (_rows(tmp_path), len(_rows(tmp_path, "raw", "t__errors"))) == ([(1, 1)], 2)
    _correct(tmp_path, before, after)
    _done(loop)  # without a request
    assert _rows(tmp_path) == [(1, 1)]
    session.execute("REPLAY ERRORS FROM events")
    loop = _loop(session)
    _done(loop)
    assert _rows(tmp_path) == [(1, 1), (2, 2)]
    ((raw, message),) = _rows(tmp_path, "raw, message", "t__errors")
    assert b"x" in raw
    assert message
    (tmp_path / "in" / "b").write_text("\n".join(lines) + "\n")
    _loop(session)
    assert _rows(tmp_path) == [(1, 1), (1, 1), (2, 2)]


def test_a_sink_that_runs_answers(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in" / "a").write_text('{"k": 1, "v": "x"}\n{"k": 2, "v": "x2"}\n')
    _script(session, tmp_path, "JSON")
    loop = _loop(session)
    _correct(tmp_path, b'"x2"', b"2")
    assert _asked_while_it_runs(session, session, loop) == (("s", 1, 1),)
    assert _rows(tmp_path) == [(2, 2)]


@pytest.mark.server
def test_a_sink_answers_that_runs_on_another_host(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "A" * 43 + "=")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text('{"k": 1, "v": "x"}\n{"k": 2, "v": "x2"}\n')
    address = server_address(postgres, tmp_path / "one")
    with Session(address) as session, Session(replace(address, folder=tmp_path / "two")) as other:
        _script(session, tmp_path, "JSON")
        loop = _loop(session)
        _correct(tmp_path, b'"x2"', b"2")
        other.execute("REPLAY ERRORS FROM events")
        _done(loop, session.context(loop.job).notes)
        assert _rows(tmp_path) == [(2, 2)]
        _correct(tmp_path, b'"x"', b"1")
        assert _asked_while_it_runs(session, other, loop) == (("s", 1, 0),)
        assert _rows(tmp_path) == [(1, 1), (2, 2)]
        other.execute("DROP SINK s")
        with session.catalog.database.read() as connection:
            assert connection.all("SELECT * FROM notes WHERE owner <> 'catalog'") == []


def test_a_record_on_which_the_sinks_view_fails_stays(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in" / "a").write_text('{"k": 1, "v": "x0"}\n{"k": 2, "v": 2}\n')
    _script(session, tmp_path, "JSON")
    session.execute("DROP SINK s; CREATE MATERIALIZED VIEW w AS SELECT k, 10 / v AS v FROM events;")
    session.execute(
        "CREATE SINK w_sink FROM w INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND "
        "WITH (COMMIT INTERVAL = '1s')"
    )
    loop = _loop(session)
    _correct(tmp_path, b'"x0"', b"0")
    session.execute("REPLAY ERRORS FROM events")
    _done(loop)
    assert (_rows(tmp_path), len(_rows(tmp_path, "raw", "t__errors"))) == ([(2, 5)], 1)
    (tmp_path / "in" / "b").write_text('{"k": 3, "v": 10}\n')
    _loop(session)
    assert _rows(tmp_path) == [(2, 5), (3, 1)]


def test_rows_by_key_are_computed_again_from_the_files(session: Session, tmp_path: Path) -> None:
    """A replayed record would be the last one of its key."""
    (tmp_path / "in" / "a").write_text('{"k": 1, "v": "x"}\n{"k": 1, "v": 2}\n{"k": 2, "v": "y"}\n')
    _script(session, tmp_path, "JSON", mode="KEY (k) NOT ENFORCED MODE UPSERT")
    loop = _loop(session)
    _correct(tmp_path, b'"x"', b"7")
    session.execute("REPLAY ERRORS FROM events")
    _done(loop)
    assert (_rows(tmp_path), len(_rows(tmp_path, "raw", "t__errors"))) == ([(1, 2)], 2)


def test_records_of_a_batch_that_did_not_commit_are_kept_though_all_rows_are_computed_again(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "a").write_text('{"k": 1, "v": "x"}\n{"k": 2, "v": 2}\n')
    _script(session, tmp_path, "JSON", mode="KEY (k) NOT ENFORCED MODE UPSERT")
    _loop(session)
    (tmp_path / "in" / "b").write_text('{"k": 3, "v": "y"}\n{"k": 4, "v": 4}\n')
    loop = _started(session)

    def dies(*given: object) -> None:
        raise OSError("disk")

    monkeypatch.setattr(loop.writer, "commit", dies)
    with pytest.raises(OSError, match="disk"):
        drain(loop)
    assert len(_rows(tmp_path, "raw", "t__errors")) == 2  # the dead letters are committed before the batch
    loop = _started(session)
    loop.full_refresh()
    drain(loop)
    assert (_rows(tmp_path), len(_rows(tmp_path, "raw", "t__errors"))) == ([(2, 2), (4, 4)], 2)


def test_files_that_are_not_cut_into_records_have_none_to_replay(session: Session, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"k": [1, 2], "v": [1, -1]}), tmp_path / "in" / "a.parquet")
    _script(session, tmp_path, "PARQUET", type_="uint4")
    loop = _loop(session)
    kept = len(_rows(tmp_path, "raw", "t__errors"))
    assert kept
    control = session.catalog.control
    control.acquire(loop.job.sink_id, owner="test", takeover=False)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(session.execute, "REPLAY ERRORS FROM events")
        deadline = Deadline()
        while not running.done():
            _done(loop)
            deadline.check("an answer")
        with pytest.raises(SinkqlError) as refused:
            running.result()
    assert refused.value.code == "SQ3394"
    assert len(_rows(tmp_path, "raw", "t__errors")) == kept


@pytest.mark.parametrize(
    ("clauses", "code"),
    [("WITH (ON ERROR = SKIP)", None), ("WITH (ON ERROR = DEAD LETTER)", "SQ3394")],
)
def test_what_cannot_be_replayed_is_refused(session: Session, tmp_path: Path, clauses: str, code: str | None) -> None:
    changes = "SELECT k, count(*) AS n FROM events GROUP BY k"
    session.execute(
        _SCRIPT.format(
            folder=tmp_path, format="JSON", type="bigint", mode="KEY (k) MODE UPSERT", with_=", SNAPSHOT = false"
        )
        .replace("WITH (ON ERROR = DEAD LETTER)", clauses)
        .replace("CREATE SINK s FROM events", f"CREATE MATERIALIZED VIEW m AS {changes}; CREATE SINK s FROM m")
    )
    if code is None:
        (result,) = session.execute("REPLAY ERRORS FROM events")
        assert (result.skipped, [each.code for each in result.notices]) == (True, ["SQ2355"])
        return
    with pytest.raises(SinkqlError) as refused:
        session.execute("REPLAY ERRORS FROM events")
    assert (refused.value.code, refused.value.span is not None) == (code, True)


def test_all_columns_of_a_list_are_as_they_are_kept(session: Session, tmp_path: Path) -> None:
    """The remaining dead letters keep their time and error."""
    (tmp_path / "in" / "a").write_text('{"k": 1, "v": "x"}\n{"k": 2, "v": "x2"}\n')
    _script(session, tmp_path, "JSON")
    loop = _loop(session)
    before = _rows(tmp_path, 'position, code, message, raw, about, "at"', "t__errors")
    _correct(tmp_path, b'"x2"', b"2")
    session.execute("REPLAY ERRORS FROM events")
    _done(loop)
    assert _rows(tmp_path, 'position, code, message, raw, about, "at"', "t__errors") == before[:1]
    assert json.loads(json.dumps(_rows(tmp_path))) == [[2, 2]]
