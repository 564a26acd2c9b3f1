"""The command line, the catalog and the shell show no secrets, without a pipeline."""

from __future__ import annotations

import http.server
import json
import logging
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leak.scanner import canary, files_in, hits, text_of
from sinkql.catalog.sqlite.database import back_up
from sinkql.catalog.system import RELATIONS
from sinkql.cli.main import run_command as run
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.shell.editor.prompt import SafeHistory
from support.keywords import WORDS

pytestmark = pytest.mark.long

_WHERE = ("literal", "joined", "decoded", "environment", "file", "option", "token", "id", "url")
_SECRETS = {kind: canary(kind) for kind in _WHERE}
_T = {kind: each.text for kind, each in _SECRETS.items()}
_DECODED = _T["decoded"].encode().hex()
_ITEMS = f"""
CREATE SECRET s_literal AS '{_T["literal"]}';
CREATE SECRET s_joined AS 'x' || '{_T["joined"]}';
CREATE SECRET s_decoded AS decode('{_DECODED}', 'hex');
CREATE SECRET s_environment AS env_var('LEAK_SECRET');
CREATE SECRET s_file AS file('../secret.txt');
CREATE CONNECTION aws TO AWS (
  ACCESS KEY ID = '{_T["id"]}', SECRET ACCESS KEY = SECRET s_literal, SESSION TOKEN = '{_T["token"]}');
CREATE CONNECTION away TO ICEBERG CATALOG (
  CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:1', CREDENTIAL = '{_T["option"]}') WITH (VALIDATE = false);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW v AS SELECT counter * 2 AS c FROM n WHERE counter > 1;
"""
_SINK = """
CREATE SINK s FROM v
  INTO ICEBERG CATALOG CONNECTION {} (NAMESPACE 'a', TABLE 'b') {} ENVELOPE NONE WITH (COMMIT INTERVAL '1s');
"""
_OTHER_SINK = _SINK.format("away", "USING AWS CONNECTION aws").replace("SINK s", "SINK other")
_REMOTE = _ITEMS + _SINK.format("away", "USING AWS CONNECTION aws")
_KINDS = ("secret s_literal", "secret s_joined", "secret s_decoded", "connection aws", "connection away", "sink s")
_STAGES = ("RAW PLAN", "OPTIMIZED PLAN", "PHYSICAL PLAN", "SPARK SQL")
_SHOWING = "".join(
    [
        *(f"SHOW CREATE {each}; SHOW REDACTED CREATE {each};" for each in _KINDS),
        *(f"EXPLAIN {stage} AS {form} FOR SINK s;" for stage in _STAGES[:3] for form in ("TEXT", "JSON")),
        *(f"EXPLAIN {stage} AS {form} FOR {_OTHER_SINK}" for stage in _STAGES[:3] for form in ("TEXT", "JSON")),
        "EXPLAIN SPARK SQL FOR SINK s; SHOW SECRETS; SHOW CONNECTIONS; SHOW OBJECTS; SHOW ALL;",
        *(f"SELECT * FROM {schema}.{name};" for schema, name in RELATIONS),
    ]
)
_URLS = [
    f"postgresql://u:{_SECRETS['url'].core}@h/d",
    f"postgresql+psycopg://u:a/b@{_SECRETS['url'].core}@h/d",
    f"postgresql://h/d?password={_SECRETS['url'].core}",
    f"http://u:{_SECRETS['url'].core}@127.0.0.1:1/x",
    f"https://{_SECRETS['url'].core}@h/x",
    f"https://h/x?a=b&X-Amz-Signature={_SECRETS['url'].core}&c=d",
    f"https://h/x?access_token={_SECRETS['url'].core}",
    f"https://h/x#api-key={_SECRETS['url'].core}",
    f"https://h/x?sig={_SECRETS['url'].core}",
]
_IN_URLS = [
    statement.format(address)
    for address in _URLS
    for statement in (
        "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'w', URL = '{}');",
        "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '{}');",
        "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'http://h', OAUTH2 SERVER URL = '{}');",
        "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{}');",
        "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'w', URL = '{}",
        "CREATE CONNECTION c TO AWS (ACCESS KEY ID = 'i', SECRET ACCESS KEY = SECRET s_file, ENDPOINT = '{}');",
        "CREATE CONNECTION c TO CONFLUENT SCHEMA REGISTRY (URL = '{}');",
        "CREATE CONNECTION c TO KAFKA (BROKER = '{}');",
        "CREATE CONNECTION c TO NOBODY (X = '{}');",
        "CREATE SOURCE f (a int) FROM FILES (PATH = '{}') FORMAT JSON;",
        "CREATE CLUSTER k (SIZE = 'local[1]', CONF = MAP['spark.x' => '{}']);",
        "CREATE CLUSTER k (MASTER = '{}', STATE = '/state');",
        "CREATE SINK k FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = '{}', TABLE = 't') MODE APPEND;",
        "ALTER CONNECTION away SET (OAUTH2 SERVER URL = '{}');",
        "SELECT nope('{}');",
        "/* {} */ SELECT FROM;",
    )
]
_MISTAKES = [
    f"CREATE SECRET a '{_T['literal']}';",
    f"CREATE SECRET a AS {_SECRETS['literal'].core};",
    f'CREATE SECRET a AS "{_SECRETS["literal"].core}";',
    f"CREATE SECRET a = {_SECRETS['literal'].core};",
    f"CREATE SECRET a AS '{_T['literal']}",
    f"CREATE SECRET a AS nope('{_T['literal']}');",
    f"CREATE SECRET a AS decode('{_SECRETS['literal'].core}', 'hex');",
    f"CREATE SECRET a AS decode('{_SECRETS['literal'].core}', 'base46');",
    f"CREATE SECRET a AS 'x' || env_vra('{_T['literal']}');",
    f"ALTER SECRET nope AS '{_T['literal']}';",
    f"ALTER SECRET s_literal TO '{_T['literal']}';",
    f"CREATE CONNECTION c TO POSTGRES (HOST 'h', PASSWORD = '{_T['option']}', DATABASE 'd');",
    f"CREATE CONNECTION c TO AWS (ACCESS KEY ID 'x', SECRET ACCESS KEY = '{_T['option']}');",
    f"CREATE CONNECTION c TO AWS (SESSION TOKEN = '{_T['token']}'",
    f"CREATE CONNECTION c TO AWS (SESSION TOKEN '{_T['token']}', NOPE = 1);",
    f"ALTER CONNECTION away SET (CREDENTIAL = '{_T['option']}', NOPE = 1);",
    f"CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE 'rest', URL 'x', CREDENTIAL = '{_T['option']}');",
    f"CREATE SECRET s_literal AS '{_T['joined']}';",
    "CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:{port}', CREDENTIAL = "
    "'id:' || SECRET s_literal || SECRET s_joined || SECRET s_decoded || SECRET s_environment || SECRET s_file);",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Path]:
    """Work in a project, with secrets beside it and all logs at debug level."""
    (tmp_path / "project").mkdir()
    (tmp_path / "secret.txt").write_text(_T["file"])
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("LEAK_SECRET", _T["environment"])
    caplog.set_level(logging.DEBUG)
    yield tmp_path / "project"
    assert hits(text_of("logs", caplog.text), _SECRETS.values()) == []


class _Refusing(http.server.BaseHTTPRequestHandler):
    """Refuses any credential, as a catalog does."""

    def do_POST(self) -> None:  # the library's name
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"error": "invalid_client", "error_description": "who are you"}).encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815  # as above

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as above
        pass


@pytest.fixture
def refusing() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("output", ["text", "json"])
def test_what_is_shown_of_items_holds_no_secret(folder: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    with Session() as session:
        session.execute(_ITEMS + _SINK.format("lake", ""))
    (folder.parent / "showing.sql").write_text(_SHOWING)
    for arguments in (["exec", "../showing.sql"], ["secret", "list"], ["secret", "check"], ["status"]):
        assert run(["--output", output, *arguments]) == 0, capsys.readouterr().err
    printed = capsys.readouterr()
    assert "s_environment" in printed.out
    assert "<redacted>" in printed.out
    assert hits(text_of("output", printed.out, printed.err), _SECRETS.values()) == []
    assert hits(files_in(folder), _SECRETS.values()) == []


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("stage", ["raw", "optimized", "physical", "spark-sql"])
def test_plans_of_a_script_hold_no_secret(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str, stage: str
) -> None:
    (folder.parent / "script.sql").write_text(_REMOTE)
    assert run(["--output", output, "explain", "../script.sql", "--stage", stage]) == 0
    printed = capsys.readouterr()
    assert printed.out
    assert hits(text_of("output", printed.out, printed.err), _SECRETS.values()) == []


def test_compiled_jobs_hold_what_they_cannot_run_without_and_no_more(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "script.sql").write_text(_REMOTE)
    assert run(["compile", "../script.sql", "-o", "job.json"]) == 0
    printed = capsys.readouterr()
    assert hits(text_of("output", printed.out, printed.err), _SECRETS.values()) == []
    assert printed.err.count("as plain text, and so do its jobs") == 2
    program = (folder / "job.json").read_text()
    assert {kind for _, kind, _ in hits([("job", program.encode())], _SECRETS.values())} == {"option", "token", "id"}
    items = json.dumps(json.loads(program)["items"])
    assert hits(text_of("items", items), _SECRETS.values()) == []
    assert stat.S_IMODE((folder / "job.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_errors_hold_no_secret(folder: Path, capsys: pytest.CaptureFixture[str], refusing: int, mistake: str) -> None:
    with Session() as session:
        session.execute(_ITEMS)
    (folder.parent / "mistake.sql").write_text(mistake.replace("{port}", str(refusing)))
    for output in ("text", "json"):
        assert run(["--output", output, "exec", "../mistake.sql"]) != 0
        run(["--output", output, "compile", "../mistake.sql", "-o", "../job.json"])
    printed = capsys.readouterr()
    assert "SQ" in printed.err
    assert hits(text_of("output", printed.out, printed.err), _SECRETS.values()) == []
    assert hits(files_in(folder), _SECRETS.values()) == []


def test_urls_with_secrets_are_refused_without_showing_them(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with Session() as session:
        session.execute(_ITEMS)
    for place, mistake in enumerate(_IN_URLS[::5]):  # 5 and the number of statements are coprime
        (folder.parent / f"{place}.sql").write_text(mistake)
        run(["lint", f"../{place}.sql"])
        run(["compile", f"../{place}.sql", "-o", "../job.json"])
        assert run(["exec", f"../{place}.sql"]) != 0, mistake
    printed = capsys.readouterr()
    assert "SQ2106" in printed.err
    assert "add CREDENTIAL = SECRET name" in printed.err
    assert hits(text_of("output", printed.out, printed.err), _SECRETS.values()) == []
    assert hits(text_of("log", caplog.text), _SECRETS.values()) == []
    assert hits(files_in(folder), _SECRETS.values()) == []


def test_history_holds_no_secret(folder: Path) -> None:
    history = SafeHistory(folder / "history", WORDS)
    for statement in [*_ITEMS.split(";\n"), *_MISTAKES, *_IN_URLS]:
        history.append_string(statement)
    kept = (folder / "history").read_text()
    assert "LOAD GENERATOR" in kept
    assert "env_var" in kept
    assert hits(files_in(folder), _SECRETS.values()) == []


def test_backup_of_the_catalog_holds_no_secret(folder: Path) -> None:
    with Session() as session:
        for mistake in _IN_URLS:
            with pytest.raises(SinkqlError):
                session.execute(mistake)
        session.execute(_ITEMS + f"ALTER SECRET s_joined AS '{_T['decoded']}'; DROP SECRET s_decoded;")
        back_up(session.catalog.database.folder / "catalog.db", folder / "catalog.backup")
    assert list(folder.rglob("*.backup"))
    assert hits(files_in(folder), _SECRETS.values()) == []


def test_secrets_are_where_the_search_believes(folder: Path) -> None:
    with Session() as session:
        session.execute(_ITEMS)
        revealed = {name: session.access.secret(f"materialize.public.s_{name}") for name in _WHERE[:5]}
    assert revealed == {name: _T[name] if name != "joined" else f"x{_T[name]}" for name in revealed}
