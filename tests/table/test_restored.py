"""After tables or other folders are restored from a copy, a sink continues if that is correct, and otherwise stops."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from sinkql.catalog.backup import back_up_all, restore
from sinkql.cli.main import run_command as run
from sinkql.connector_api.stream import Limit, ReadCounts
from sinkql.errors import SinkqlError
from sinkql.logical.type import TEXT
from sinkql.session import Session
from sinkql.storage import failpoint
from sinkql.table.file import TableFile
from sinkql.table.row import Codec
from support.fault import armed
from support.running import drain
from table.test_table_sinks import _SETUP, KINDS, change, expected, loop, sink, written

_T = "materialize.public.t"


def file_of(session: Session) -> Path:
    item = session.catalog.plans.item(_T)
    return Path(f".sinkql/tables/{item.options['table_id']}.db")  # type: ignore[union-attr]  # a table


def last(session: Session) -> int:
    """Return the number of the newest change of t."""
    return TableFile(file_of(session), Codec((TEXT,) * 9)).last().change


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(6))
def test_a_sink_continues_after_a_backup_only_if_the_backup_has_all_that_it_read(session: Session, seed: int) -> None:
    random_, kind = random.Random(seed), KINDS["mapped"]
    session.execute(_SETUP)
    running = sink(session, kind)
    running.start(epoch=1)
    copied = read = 0
    steps = random_.sample(["copy", "read"], 2) if seed % 3 else ["copy", "read"]
    for step in steps:
        for _ in range(random_.randrange(1, 4)):
            change(session, random_)
        if step == "copy":
            back_up_all(Path(".sinkql/catalog.db"), Path("copy.db"))
            copied = last(session)
        else:
            drain(running)
            read = last(session)
    newer = Path(shutil.copytree(".sinkql/tables", "newer"))
    shutil.rmtree(".sinkql/tables")
    shutil.copytree("copy.db.tables", ".sinkql/tables")
    for _ in range(random_.randrange(9)):
        change(session, random_)  # the numbers may be in use again, for other changes
    restarted = loop(session)
    if read > copied:
        before = written(False)
        with pytest.raises(SinkqlError) as refused:
            restarted.start(epoch=2)
        with pytest.raises(SinkqlError) as in_process:
            running.commit_batch(running.checkpoint.end, running.checkpoint.end)
        assert (refused.value.code, in_process.value.code) == ("SQ3421", "SQ3421")
        assert written(False) == before
        shutil.rmtree(".sinkql/tables")
        newer.rename(".sinkql/tables")
    restarted.start(epoch=3)
    drain(restarted)
    assert written(False) == expected(session, kind.expected)


def test_no_part_of_a_batch_is_read_from_another_file(session: Session) -> None:
    session.execute(f"{_SETUP} INSERT INTO t (id) VALUES (1)")
    shutil.copytree(".sinkql/tables", "older")
    session.execute("INSERT INTO t (id) VALUES (2)")
    running = sink(session, KINDS["upsert"])
    running.start(epoch=1)
    reader = running.readers[_T]
    start = reader.initial(at_end=False)
    (split,) = reader.splits(start, reader.latest(start, Limit(10)))
    assert sum(len(batch) for batch in reader.read(split, ReadCounts())) == 2
    shutil.copytree("older", ".sinkql/tables", dirs_exist_ok=True)
    session.execute("INSERT INTO t (id) VALUES (3)")
    with pytest.raises(SinkqlError) as refused:
        list(reader.read(split, ReadCounts()))
    assert refused.value.code == "SQ3421"


def test_a_table_of_another_catalog_is_another_one_before_its_first_row(session: Session, tmp_path: Path) -> None:
    session.execute(_SETUP)
    running = sink(session, KINDS["upsert"])
    running.start(epoch=1)
    with Session(str(tmp_path / "other" / "catalog.db")) as other:
        other.execute(_SETUP)
        (theirs,) = [
            path for path in (tmp_path / "other" / "tables").iterdir() if path.name.startswith(file_of(other).name)
        ]
        shutil.copy(theirs, file_of(session))
    with pytest.raises(SinkqlError) as refused:
        loop(session).start(epoch=2)
    assert refused.value.code == "SQ3421"


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        *((".sinkql/sinks", kind) for kind in ("upsert", "grouped", "picked", "changes")),
        *(("catalog.db", kind) for kind in ("upsert", "grouped", "changes")),
    ],
)
def test_an_older_state_folder_loses_nothing_and_an_older_lake_gets_all_again(
    session: Session, place: str, kind: str
) -> None:
    random_, each = random.Random(kind), KINDS[kind]
    session.execute(_SETUP)
    running = sink(session, each)
    running.start(epoch=1)
    for moment in range(4):
        change(session, random_)
        drain(running)
        if moment == 1:
            _copy(place, "older")
    _copy("older", place)
    change(session, random_)
    restarted = loop(session)
    restarted.start(epoch=1 if place == ".sinkql/sinks" else 2)  # an older catalog also has an older epoch
    drain(restarted)
    if kind == "picked":
        assert {key for key, _ in written(False)} == {key for key, _ in expected(session, each.expected)}
    else:
        assert written(each.changelog) == expected(session, each.expected)


def _copy(source: str, target: str) -> None:
    """Replace a file or a folder by another."""
    if Path(source).is_file():
        shutil.copy(source, target)
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


_CATALOG = Path(".sinkql/catalog.db")


def _held(session: Session) -> list[object]:
    return [sorted(session.execute(f"SELECT * FROM {table}")[0].rows, key=repr) for table in ("t", "loose")]


@pytest.mark.long
@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["grouped", "upsert", "union"])
def test_a_restored_catalog_is_followed_by_sinks_that_had_read_more(session: Session, kind: str) -> None:
    random_, each = random.Random(kind), KINDS[kind]
    session.execute(_SETUP)
    running = sink(session, each)
    running.start(epoch=1)
    for _ in range(6):
        change(session, random_)
    drain(running)
    back_up_all(_CATALOG, Path("copy.db"))
    older = _held(session)
    for _ in range(6):
        change(session, random_)
    drain(running)
    newer = _held(session)
    copy: Path | None = Path("copy.db")
    for epoch, rows in enumerate((older, newer), 2):
        assert copy is not None
        copy = restore(_CATALOG, copy)  # the second turn restores the catalog that the first one replaced
        with Session() as again:
            assert _held(again) == rows
            restarted = loop(again)
            restarted.start(epoch=epoch)
            drain(restarted)
            assert written(each.changelog) == expected(again, each.expected)
            for _ in range(4):
                change(again, random_)  # with the keys of the restored rows
            drain(restarted)
            assert written(each.changelog) == expected(again, each.expected)


def test_a_catalog_is_restored_to_where_nothing_is_left(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.execute(f"{_SETUP} INSERT INTO t (id) VALUES (1)")
    assert run(["catalog", "backup", "copy.db"]) == 0
    session.execute("INSERT INTO t (id) VALUES (2)")
    running = sink(session, KINDS["upsert"])
    running.start(epoch=1)
    drain(running)
    session.close()
    shutil.rmtree(".sinkql")
    assert run(["catalog", "restore", "copy.db"]) == 0
    assert "restored" in capsys.readouterr().out
    assert (_CATALOG.stat().st_mode & 0o777, _CATALOG.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with Session() as again:
        assert [row[0] for row in again.execute("SELECT * FROM t")[0].rows] == [1]
        again.execute("INSERT INTO t (id) VALUES (3)")


def test_nothing_is_restored_under_sinks_that_run(session: Session) -> None:
    session.execute(_SETUP)
    running = sink(session, KINDS["upsert"])
    back_up_all(_CATALOG, Path("copy.db"))
    session.execute("INSERT INTO t (id) VALUES (1)")
    control = session.catalog.control
    control.acquire(running.job.sink_id, owner="o", takeover=False)
    with pytest.raises(SinkqlError) as refused:
        restore(_CATALOG, Path("copy.db"))
    with pytest.raises(SinkqlError) as absent:
        restore(_CATALOG, Path("nothing.db"))
    assert (refused.value.code, absent.value.code) == ("SQ5211", "SQ4115")
    assert session.execute("SELECT count(*) FROM t")[0].rows == ((1,),)
    control.release(running.job.sink_id, owner="o")
    restore(_CATALOG, Path("copy.db"))
    with Session() as again:
        assert again.execute("SELECT count(*) FROM t")[0].rows == ((0,),)


def test_a_restore_that_was_cut_short_is_done_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.execute(f"{_SETUP} INSERT INTO t (id) VALUES (1), (2)")
    back_up_all(_CATALOG, Path("copy.db"))
    session.execute("DELETE FROM t WHERE id = 1; INSERT INTO t (id) VALUES (3); CREATE TABLE later (a int)")
    with monkeypatch.context() as patch:
        for name, value in armed("tables-restored#1=fail").items():
            patch.setenv(name, value)
        with pytest.raises(failpoint.FaultError):
            restore(_CATALOG, Path("copy.db"))
    changes = last(session)
    restore(_CATALOG, Path("copy.db"))
    with Session() as again:
        assert again.execute("SELECT id FROM t")[0].rows == ((2,), (1,))
        assert last(again) == changes  # the second restore repeats no change
        with pytest.raises(SinkqlError):
            again.execute("SELECT * FROM later")
