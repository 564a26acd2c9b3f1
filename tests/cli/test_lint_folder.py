"""`sinkql lint FOLDER` checks the files of a folder as one catalog, in an order in which they can be executed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from sinkql.cli.main import run_command
from sinkql.errors import SinkqlError
from sinkql.program.script_folder import lint_folder
from sinkql.session import Session

_LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake') WITH (VALIDATE = false);"
_SINK = """CREATE SINK k FROM w INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '10s');"""
_PARTS = (
    _LAKE,
    "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);",
    "SET search_path = other; CREATE VIEW v AS SELECT counter FROM public.n; ALTER VIEW v RENAME TO u;",
    "CREATE SCHEMA other;",
    "CREATE MATERIALIZED VIEW w AS SELECT counter FROM other.u;",
    _SINK,
)


def _codes(*texts: str) -> list[tuple[str, str, str]]:
    scripts = [(f"{number}.sql", text) for number, text in enumerate(texts)]
    return [(found.error.path or "", found.level, found.error.code) for found in lint_folder(scripts)]


@pytest.mark.parametrize("order", list(itertools.islice(itertools.permutations(range(len(_PARTS))), 0, 720, 72)))
def test_what_one_file_creates_others_know_in_any_order(order: tuple[int, ...]) -> None:
    assert _codes(*(_PARTS[number] for number in order)) == []


def test_a_mistake_is_told_once_in_its_file() -> None:
    assert _codes("CREATE VIEW v AS SELECT nothing FROM n;", "CREATE SOURCE n FROM LOAD GENERATOR COUNTER;") == [
        ("0.sql", "error", "SQ2204")
    ]
    assert _codes("CREATE VIEW v AS SELECT counter FROM n;", "CREATE SOURCE n FROM LOAD GENERATOR COUNTR;") == [
        ("1.sql", "error", "SQ2450")
    ]
    assert _codes("CREATE VIEW v AS SELECT counter FROM n;", "CREAT SOURCE n FROM LOAD GENERATOR COUNTER;") == [
        ("1.sql", "error", "SQ1003")
    ]
    assert _codes("CREATE VIEW v AS SELECT counter FROM n;", "CREATE SOURCE m FROM LOAD GENERATOR COUNTER;") == [
        ("0.sql", "error", "SQ2202")
    ]


def test_a_file_uses_nothing_of_its_own_before_it_creates_it() -> None:
    """A file is executed from top to bottom."""
    text = "CREATE VIEW v AS SELECT counter FROM n; CREATE SOURCE n FROM LOAD GENERATOR COUNTER;"
    assert ("0.sql", "error", "SQ2202") in _codes(text, "CREATE SOURCE m FROM LOAD GENERATOR COUNTER;")


def test_files_that_need_each_other_are_read_side_by_side() -> None:
    one = "CREATE SOURCE a FROM LOAD GENERATOR COUNTER; CREATE VIEW d AS SELECT counter FROM c;"
    other = "CREATE VIEW b AS SELECT counter FROM a; CREATE VIEW c AS SELECT counter FROM b;"
    assert _codes(one, other) == _codes(other, one) == []
    never = "CREATE VIEW e AS SELECT counter FROM f;", "CREATE VIEW f AS SELECT counter FROM e;"
    assert _codes(*never) == [("0.sql", "error", "SQ2202")]  # lint does not report the consequences


def test_tables_that_only_a_server_knows_may_come_from_another_file() -> None:
    server = """CREATE CONNECTION p TO POSTGRES (HOST 'h', DATABASE 'd', USER 'u') WITH (VALIDATE = false);
    CREATE SOURCE shop FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR ALL TABLES;"""
    assert _codes("CREATE VIEW v AS SELECT id FROM orders;", server) == []


def test_what_two_files_create_is_told_with_both_places() -> None:
    one, other = "CREATE SOURCE n FROM LOAD GENERATOR COUNTER;", "\n CREATE SOURCE n FROM LOAD GENERATOR COUNTER;"
    (found,) = lint_folder([("a.sql", one), ("b.sql", other)])
    assert (found.level, found.error.code) == ("warning", "SQ2770")
    assert str(found.error).startswith('b.sql:2:16: error[SQ2770]: source "n" is also created at a.sql:1:15')
    (found,) = lint_folder([("a.sql", one), ("b.sql", other.replace("COUNTER", "COUNTER (UP TO 7)"))])
    assert (found.level, found.error.code) == ("error", "SQ2014")
    assert (found.error.detail or "").startswith("it is created at a.sql:1:15\n")
    assert _codes(one, "CREATE SOURCE IF NOT EXISTS n FROM LOAD GENERATOR COUNTER;") == []
    assert _codes("CREATE VIEW v AS SELECT 1 AS a;", "CREATE OR REPLACE VIEW v AS SELECT 2 AS a;") == [
        ("1.sql", "warning", "SQ2770")
    ]


def test_what_nothing_uses_is_told_of_the_folder_as_a_whole() -> None:
    assert _codes(*_PARTS, "CREATE SOURCE m FROM LOAD GENERATOR COUNTER;") == [("6.sql", "warning", "SQ2704")]


def test_a_folder_is_one_catalog_and_a_file_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("all").mkdir()
    for number, text in enumerate(reversed(_PARTS)):
        Path("all", f"{number}.sql").write_text(text)
    assert run_command(["lint", "all", "--strict"]) == 0
    assert run_command(["lint", *map(str, sorted(Path("all").iterdir()))]) == 1
    capsys.readouterr()
    Path("all", "9.sql").write_text("CREATE VIEW w AS SELECT :what FROM n;")
    assert run_command(["lint", "all", "-v", "what=counters", "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (found["path"], found["line"], found["column"]) == ("all/9.sql", 1, 25)


def test_what_lint_takes_can_be_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a folder run without an error in the order of their dependencies."""
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        for text in (_PARTS[0], _PARTS[1], _PARTS[3], _PARTS[2], "SET search_path = public;", *_PARTS[4:]):
            session.execute(text)
        with pytest.raises(SinkqlError):
            session.execute("CREATE VIEW w AS SELECT 1 AS a;")
