"""The shell without a terminal: text in, rows out, exit codes."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from shell.conftest import ITEMS
from sinkql.session import Session
from sinkql.shell.editor.prompt import may_be_kept
from sinkql.shell.setting import RowFormat
from sinkql.shell.terminal import run_shell
from support.command import run
from support.keywords import WORDS


class Filtered:
    """Runs texts through the shell, in this process."""

    def __init__(self, session: Session, capture: pytest.CaptureFixture[str]) -> None:
        self._session, self._capture = session, capture
        self.code, self.errors = 0, ""

    def __call__(
        self, *texts: str, path: str | None = None, format_: RowFormat = "table", keep_going: bool = False
    ) -> list[str]:
        given: Sequence[tuple[str, str | None]] = [(text, path) for text in texts]
        self.code = run_shell(self._session, given, format=format_, keep_going=keep_going)
        captured = self._capture.readouterr()
        self.errors = captured.err
        return captured.out.splitlines()


@pytest.fixture
def filtered(session: Session, capsys: pytest.CaptureFixture[str]) -> Filtered:
    return Filtered(session, capsys)


@pytest.mark.long
def test_a_pipe_and_a_file_and_an_option_hand_in_statements(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 'file' AS a;")
    piped = run("shell", folder=tmp_path, text="SHOW SINKS;\nSELECT 'pipe' AS a")
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout.splitlines()[-4:] == ["a", "────", "pipe", "(1 row)"]
    given = run("shell", "--format", "csv", "a.sql", "-c", "SELECT 'option' AS a", folder=tmp_path)
    assert given.stdout == "a\nfile\na\noption\n"


def test_rows_come_in_the_format_that_is_asked_for(filtered: Filtered) -> None:
    query = "SELECT name, type FROM mz_sinks"
    assert json.loads("".join(filtered(query, format_="json"))) == [{"name": "daily_sink", "type": "iceberg"}]
    assert list(csv.reader(filtered(query, format_="csv"))) == [["name", "type"], ["daily_sink", "iceberg"]]
    assert filtered(query, format_="jsonl") == ['{"name": "daily_sink", "type": "iceberg"}']
    assert filtered("SET cluster = quickstart", format_="csv") == []


def test_what_is_there_already_is_not_said_to_be_created(filtered: Filtered) -> None:
    counter = "CREATE SOURCE c FROM LOAD GENERATOR COUNTER;"
    assert filtered(counter) == ["CREATE SOURCE"]
    assert filtered(counter) == []
    assert "already exists, skipped" in filtered.errors
    assert filtered("DROP SINK IF EXISTS nothing;") == []


def test_the_first_error_ends_it_with_its_place_in_the_file(filtered: Filtered) -> None:
    text = "SELECT 1 AS a;\n\nSELECT b\n  FROM mz_sinks; SELECT 2 AS c;"
    assert filtered(text, path="script.sql")[0] == "a"
    assert filtered.code == 1
    assert filtered.errors.splitlines()[:3] == [
        'script.sql:3:8: error[SQ2204]: column "b" does not exist',
        "3 | SELECT b",
        "           ^",
    ]


def test_keep_going_runs_the_rest_and_keeps_the_first_exit_code(filtered: Filtered) -> None:
    out = filtered("SELECT b FROM mz_sinks; \\i nowhere.sql\nSELECT 2 AS c;", keep_going=True)
    assert out == ["c", "─", "2", "(1 row)"]
    assert filtered.code == 1
    assert "SQ4010" in filtered.errors


def test_a_transaction_that_is_not_ended_is_an_error(filtered: Filtered) -> None:
    filtered("BEGIN; CREATE SOURCE c FROM LOAD GENERATOR COUNTER;")
    assert (filtered.code, "SQ2655" in filtered.errors) == (1, True)


def test_commands_work_in_files_and_errors_name_the_included_one(filtered: Filtered, folder: Path) -> None:
    (folder / "inner.sql").write_text("\\set day 'a day'\nSELECT :'day' AS day, :x;")
    assert filtered("\\i inner.sql") == []
    assert filtered.errors.splitlines()[:3] == [
        'inner.sql:2:23: error[SQ4033]: variable "x" is not set',
        "2 | SELECT :'day' AS day, :x;",
        "                          ^^",
    ]


def test_an_error_behind_a_variable_points_into_the_users_text(filtered: Filtered) -> None:
    filtered("\\set t mz_sinks\nSELECT :'t' AS a, nam FROM :t;")
    assert filtered.errors.splitlines()[1:3] == ["2 | SELECT :'t' AS a, nam FROM :t;", "                      ^^^"]


def test_an_error_shows_no_secret_of_another_statement(filtered: Filtered) -> None:
    filtered("CREATE SECRET s AS 'hunter2'; SELECT nam FROM mz_sinks;")
    assert "nam" in filtered.errors
    assert "hunter2" not in filtered.errors


def test_d_lists_each_kind_and_takes_patterns(filtered: Filtered) -> None:
    assert [line.split()[0] for line in filtered("\\d")[2:-1]] == ["daily", "daily_sink", "lake", "orders"]
    for command, name in (("ds", "orders"), ("dm", "daily"), ("dk", "daily_sink"), ("dc", "lake"), ("dcl", "quick")):
        assert any(line.startswith(name) for line in filtered(f"\\{command}")), command
    assert filtered("\\d d*")[-1] == "(2 rows)"
    for command in ("dt", "dv", "dse", "dn", "l", "dx"):
        filtered(f"\\{command}")
        assert filtered.code == 0, filtered.errors


def test_clusters_are_shown_with_what_they_run_on_and_their_state(filtered: Filtered, tmp_path: Path) -> None:
    filtered(f"CREATE CLUSTER c (SIZE = 'local[1]', STATE = '{tmp_path}');")
    assert [line.split() for line in filtered("\\dcl")[2:-1]] == [
        ["c", "local[1]", str(tmp_path)],
        ["quickstart", "local[*]"],
    ]
    described = [line.split() for line in filtered("\\d c")]
    assert ["state", str(tmp_path)] in described
    assert [
        "batches",
        "in",
        "spark",
        "if",
        "they",
        "need",
        "it;",
        "stops",
        "after",
        "300",
        "s",
        "without",
        "use",
    ] in described
    filtered("ALTER CLUSTER c SET (EXECUTION = SPARK);")
    assert ["batches", "in", "spark", "all"] in [line.split() for line in filtered("\\d c")]
    (found,) = filtered("SELECT master, state, connection_id FROM mz_internal.mz_cluster_masters;")[2:-1]
    assert found.split() == ["local[1]", str(tmp_path), "NULL"]


def test_d_describes_every_kind_of_item(filtered: Filtered) -> None:
    filtered(
        "CREATE SECRET k AS 'hunter2'; CREATE TABLE t (id bigint PRIMARY KEY); CREATE CLUSTER c (SIZE = 'local[1]');"
        "CREATE VIEW v AS SELECT id FROM orders;"
    )
    shown = filtered("\\d lake k t c v orders daily daily_sink")
    assert filtered.code == 0, filtered.errors
    for title in ('connection "lake"', 'secret "k"', 'table "t"', 'cluster "c"', 'view "v"', 'sink "daily_sink"'):
        assert title in shown
    assert not any("hunter2" in line for line in shown)
    filtered("\\d order")
    assert "hint: Did you mean \\d orders?" in filtered.errors


def test_o_writes_into_a_file_until_it_is_said_again(filtered: Filtered, folder: Path) -> None:
    shown = filtered("\\f csv\n\\o out.csv\nSELECT 1 AS a;\n\\o\nSELECT 2 AS b;")
    assert (folder / "out.csv").read_text() == "a\n1\n"
    assert shown[-2:] == ["b", "2"]


def test_watch_g_and_gx_run_the_statement_before_them(filtered: Filtered) -> None:
    assert filtered("SELECT 1 AS a \\watch 0 3").count("1") == 3
    assert filtered("SELECT 1 AS a \\g")[-1] == "(1 row)"
    assert filtered("SELECT 1 AS a \\gx\nSELECT 2 AS b;") == [
        "─ row 1 ────────────────────────────────", "a  1", "b", "─", "2", "(1 row)",
    ]  # fmt: skip


def test_timing_and_pset_and_set_are_kept(filtered: Filtered) -> None:
    shown = filtered(
        "\\timing on\n\\pset null -\n\\set a 1\nSELECT NULL AS x, :a AS a;\n\\pset\n\\set\n\\unset a\n\\set"
    )
    assert any(line.startswith("Time: ") for line in shown)
    assert any(line.split() == ["-", "1"] for line in shown)
    assert shown[-1] == "(0 rows)"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("\\jbos", "hint: Did you mean \\jobs?"),
        ("\\f tabel", "hint: Did you mean table?"),
        ("\\h CREATE SINKK", "hint: Did you mean \\h CREATE SINK?"),
        ("SELECT 1 \\d", "hint: End it with ; or \\g."),
        ("\\x maybe", "hint: Run \\? to see how commands are written."),
    ],
)
def test_a_wrong_command_is_told_what_is_right(filtered: Filtered, text: str, hint: str) -> None:
    filtered(text)
    assert filtered.errors.splitlines()[-1] == hint
    assert filtered.code == 4


def test_a_sink_that_a_file_creates_is_said_not_to_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "orders").mkdir()
    with Session() as session:
        assert run_shell(session, [(ITEMS, None)]) == 0
    assert "notice: the sink is not running yet\nhint: Run sinkql up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SELECT 1;", True),
        ("\\set day 1", True),
        ("\\set token abc", False),
        ("CREATE SECRET s AS 'x';", False),
        ("CREATE SECRET s AS env_var('X');", True),
        ("create connection c to aws (access key id 'AK', region 'x')", False),
        ("CREATE SECRET s AS 'not closed", False),
    ],
)
def test_what_may_hold_a_secret_is_not_kept(text: str, kept: bool) -> None:
    assert may_be_kept(text, WORDS) == kept


def test_the_history_file_is_its_owners(tmp_path: Path) -> None:
    from sinkql.shell.editor.prompt import SafeHistory

    path = tmp_path / "history"
    path.write_text("")
    path.chmod(0o644)
    history = SafeHistory(path, WORDS)
    history.append_string("SELECT 1;")
    history.append_string("CREATE SECRET s AS 'hunter2';")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "hunter2" not in path.read_text()
    assert list(history.load_history_strings()) == ["SELECT 1;"]


def test_d_shows_the_comments_on_an_item_and_its_columns(filtered: Filtered) -> None:
    filtered("COMMENT ON SINK daily_sink IS 'by day'; COMMENT ON COLUMN daily.orders IS 'how many';")
    assert any(line.split() == ["comment", "by", "day"] for line in filtered("\\d daily_sink"))
    assert any("how many" in line for line in filtered("\\d daily"))
    assert not any("comment" in line for line in filtered("\\d orders"))


def test_show_columns_has_truth_values(filtered: Filtered) -> None:
    shown = filtered("SHOW COLUMNS FROM orders", format_="csv")
    assert shown[1:3] == ["id,false,bigint,", "customer,true,bigint,"]
