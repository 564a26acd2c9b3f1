"""`sinkql lint`, and variables in scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkql.cli.main import run_command as run
from sinkql.errors import SinkqlError
from sinkql.program.lint import lint
from sinkql.session import Session

_PIPELINE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '10s');
"""


def _codes(text: str) -> list[tuple[str, str]]:
    return [(found.level, found.error.code) for found in lint(text)]


def test_a_good_script_has_no_findings() -> None:
    assert _codes(_PIPELINE) == []


@pytest.mark.parametrize("tables", ["TABLES (public.users, public.orders AS bought)", "ALL TABLES"])
def test_what_only_a_server_tells_of_its_tables_is_no_mistake(tables: str) -> None:
    text = f"""
    CREATE CONNECTION p TO POSTGRES (HOST 'h', DATABASE 'd', USER 'u') WITH (VALIDATE = false);
    CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
    CREATE SOURCE shop FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR {tables};
    CREATE MATERIALIZED VIEW spending AS SELECT user_id, sum(amount) AS amount FROM bought GROUP BY user_id;
    CREATE SINK a FROM users INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT;
    CREATE SINK b FROM spending INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'b') MODE APPEND;
    """
    assert [each for each in _codes(text) if each[0] == "error"] == []
    if "users" in tables:
        assert ("error", "SQ2001") in _codes(text.replace("FROM users", "FROM usrs"))


def test_what_only_files_in_s3_tell_is_no_mistake() -> None:
    text = """
    CREATE SECRET s AS 'x';
    CREATE CONNECTION aws TO AWS (REGION = 'us-east-1', ACCESS KEY ID = 'a', SECRET ACCESS KEY = SECRET s);
    CREATE SOURCE orders FROM FILES CONNECTION aws (PATH = 's3://bucket/orders') FORMAT PARQUET;
    CREATE VIEW v AS SELECT id FROM orders;
    """
    assert [each for each in _codes(text) if each[0] == "error"] == []


def test_all_mistakes_are_told_and_not_what_follows_from_them() -> None:
    text = """
    CREATE SOURCE n FROM LOAD GENERATOR COUNTR;
    CREATE VIEW v AS SELECT counter FROM n;
    CREATE VIEW w AS SELECT counter FROM nowhere;
    CREAT VIEW x AS SELECT 1;
    CREATE VIEW y AS SELECT countr FROM v;
    DROP SINK nothing;
    """
    assert _codes(text) == [("error", "SQ2450"), ("error", "SQ2202"), ("error", "SQ1003"), ("error", "SQ2001")]


_SHOWN = (
    "SELECT countr FROM n;",
    "SELECT counter FROM nowhere;",
    "SELECT counter + 'a' FROM n;",
    "SELECT countr, name FROM n, mz_sinks;",
    "SELECT id FROM read_csv('s3://a/b.csv', connection => nowhere);",
    "EXPLAIN SINK nothing;",
    "EXPLAIN SELECT countr FROM n;",
    "EXPLAIN TIMESTAMP FOR SELECT counter FROM n;",
    "SHOW CREATE VIEW n;",
    "SHOW CREATE SOURCE nowhere;",
    "VALIDATE CONNECTION nowhere;",
    "INSERT INTO t VALUES ('one');",
    "INSERT INTO t SELECT nothing FROM n;",
    "UPDATE t SET b = 1;",
    "BEGIN; INSERT INTO t VALUES (1); COMMIT;",
    "BEGIN; DROP TABLE t;",
    "COMMENT ON TABLE nowhere IS 'a';",
)


def _execute(text: str, folder: Path) -> None:
    with Session(folder / "catalog.db") as session:
        session.execute(text)
        session.end_script()


@pytest.mark.parametrize("statement", _SHOWN)
def test_an_error_is_the_one_of_running_the_script(statement: str, tmp_path: Path) -> None:
    text = f"CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE TABLE t (a bigint); {statement}"
    with pytest.raises(SinkqlError) as ran:
        _execute(text, tmp_path)
    (found,) = [each.error for each in lint(text) if each.level == "error"]
    assert (found.code, found.message, found.hint) == (ran.value.code, ran.value.message, ran.value.hint)
    assert ran.value.span in (found.span, None)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT counter FROM n ORDER BY 1 LIMIT 2;",
        "SELECT name FROM mz_sinks;",
        "SELECT * FROM 'not there yet.json';",
        "EXPLAIN SELECT counter FROM n;",
        "SHOW CREATE SOURCE n; SHOW SOURCES;",
        "VALIDATE CONNECTION c;",
        "INSERT INTO t VALUES (1); DELETE FROM t;",
        "BEGIN; DROP TABLE t; COMMIT;",
    ],
)
def test_what_runs_has_no_findings(statement: str) -> None:
    connection = "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
    assert (
        _codes(f"CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE TABLE t (a int); {connection} {statement}") == []
    )


def test_a_query_that_nests_too_deep_is_told() -> None:
    text = f"SELECT {'(' * 4000}1{')' * 4000}; SELECT {' + '.join(['1'] * 30000)} AS a;"
    assert {level for level, _ in _codes(text)} == {"error"}


@pytest.mark.parametrize("name", ["n", 'IF NOT EXISTS "n"', "public.n"])
def test_what_needs_an_item_that_does_not_parse_is_left_out(name: str) -> None:
    text = f"SHOW SINKS; CREATE SOURCE {name} FORM LOAD GENERATOR COUNTER; CREATE VIEW v AS SELECT counter FROM n;"
    assert _codes(text) == [("error", "SQ1001")]


@pytest.mark.parametrize(
    ("text", "code", "under"),
    [
        ("CREATE SECRET s AS 'hunter22';", "SQ2701", "'hunter22'"),
        ("CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE MATERIALIZED VIEW v AS SELECT * FROM n;", "SQ2702", "*"),
        (
            "CREATE SOURCE n FROM LOAD GENERATOR COUNTER;\n"
            "CREATE MATERIALIZED VIEW v AS SELECT counter * 2 AS d, /* , * */ n.* FROM n;",
            "SQ2702",
            "*",
        ),
        (_PIPELINE.replace("'10s'", "'1s'"), "SQ2703", "COMMIT INTERVAL = '1s'"),
        (_PIPELINE + "CREATE VIEW v AS SELECT counter FROM n;", "SQ2704", "v"),
    ],
)
def test_what_may_be_wrong_is_a_warning(text: str, code: str, under: str) -> None:
    (found,) = lint(text)
    assert found.error.span is not None
    assert (found.level, found.error.code) == ("warning", code)
    assert text[found.error.span.start : found.error.span.end] == under


def _of_remote_catalog(options: str, interval: str) -> str:
    connected = f"CREATE CONNECTION lake TO ICEBERG CATALOG ({options}) WITH (VALIDATE = false);"
    aws = "CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'AK', SECRET ACCESS KEY = SECRET s) WITH (VALIDATE = false);"
    pipeline = "\n".join(_PIPELINE.splitlines()[2:]).replace("'10s'", f"'{interval}'")
    return f"CREATE SECRET s AS env_var('KEY');\n{aws}\n{connected}\n{pipeline}"


@pytest.mark.parametrize(
    ("options", "interval", "codes"),
    [
        ("CATALOG TYPE = 'rest', URL = 'https://h'", "900ms", ["SQ2375", "SQ2703"]),
        ("CATALOG TYPE = 'glue', AWS CONNECTION = aws", "900ms", ["SQ2375", "SQ2703"]),
        ("CATALOG TYPE = 'rest', URL = 'https://h'", "1s", ["SQ2703"]),
        ("CATALOG TYPE = 'sql', WAREHOUSE = 'lake'", "900ms", ["SQ2703"]),
    ],
)
def test_an_interval_below_a_second_is_a_warning_for_a_catalog_on_a_server(
    options: str, interval: str, codes: list[str]
) -> None:
    text = _of_remote_catalog(options, interval)
    found = [finding for finding in lint(text) if finding.error.code in ("SQ2375", "SQ2703")]
    assert codes == sorted(finding.error.code for finding in found)
    assert {("warning", f"COMMIT INTERVAL = '{interval}'")} == {
        (finding.level, text[finding.error.span.start : finding.error.span.end])
        for finding in found
        if finding.error.span is not None
    }


def test_a_secret_is_not_shown() -> None:
    (found,) = lint("CREATE SECRET s AS 'hunter22';")
    assert "hunter22" not in str(found.error.text)


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(arguments)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_warnings_fail_only_when_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE SECRET s AS 'hunter22';")
    assert _run(["lint", str(script)], capsys)[0] == 0
    code, out, _ = _run(["lint", "--strict", str(script)], capsys)
    assert (code, "warning[SQ2701]" in out, out.splitlines()[-1]) == (1, True, "errors: 0, warnings: 1")


def test_variables_are_put_in_and_errors_show_the_script_as_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE VIEW :\"name\" AS SELECT :'text' AS t FROM :relation;")
    variables = ["-v", "name=a view", "-v", "text=it's", "-v", "relation=nowhere"]
    code, out, _ = _run(["--output", "json", "lint", *variables, str(script)], capsys)
    found = json.loads(out)
    assert (code, found["code"], found["column"]) == (1, "SQ2202", script.read_text().index(":relation") + 1)
    assert script.read_text()[found["start"] : found["end"]] == ":relation"


def test_a_variable_without_a_value_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE SOURCE s (id bigint) FROM FILES (PATH = :'folder') FORMAT JSON;")
    for command in (["lint"], ["exec"], ["compile"], ["plan"]):
        code, _, error = _run(["--catalog", str(tmp_path / "c" / "c.db"), *command, str(script)], capsys)
        assert (code, "SQ4033" in error, "add -v folder=value" in error) == (4, True, True)
    code, _, _ = _run(["compile", "-v", "folder=in", str(script)], capsys)
    assert code == 0


def test_what_is_no_variable_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = _run(["lint", "-v", "folder", str(tmp_path)], capsys)
    assert (code, "folder is not NAME=VALUE" in error) == (64, True)


def test_a_folder_stands_for_its_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.sql").write_text("CREAT VIEW v AS SELECT 1;")
    (tmp_path / "below" / "b.sql").write_text("create source n from load generator counter;")
    assert run(["lint", str(tmp_path)]) == 1
    assert "errors: 1" in capsys.readouterr().out
    assert run(["fmt", "--check", str(tmp_path / "below")]) == 1
    assert capsys.readouterr().out == f"{tmp_path / 'below' / 'b.sql'}\n"
