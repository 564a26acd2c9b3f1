"""A connector of a separate package, installed into a new environment: no file of SinkQL has its keywords."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.fault import armed
from support.forked import ForkedProcess
from support.patience import PATIENCE_S

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_KEY = "hunter22-of-the-ledger"
_SETUP = f"""
CREATE CONNECTION books TO LEDGER (FOLDER = 'ledger', API KEY = '{_KEY}');
CREATE SOURCE entries FROM LEDGER CONNECTION books (BOOK entries);
CREATE SINK copy FROM entries INTO LEDGER CONNECTION books (BOOK = 'copy') MODE APPEND
  WITH (COMMIT INTERVAL = '1s', MAX ROWS PER COMMIT = 2);
"""
_COMPLETE = """
import sys
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from sinkql.session import Session
from sinkql.shell.command.command_list import BY_NAME
from sinkql.shell.editor.completer import SqlCompleter
from sinkql.shell.editor.prompt import may_be_kept
from sinkql.shell.setting import Settings

session = Session()
completer = SqlCompleter(session, Settings(), BY_NAME)
for text in sys.argv[1:]:
    found = completer.get_completions(Document(text, len(text)), CompleteEvent(completion_requested=True))
    print(*sorted(each.text.strip() for each in found), sep="|")
print(may_be_kept("CREATE CONNECTION c TO LEDGER (API KEY = 'x');", session.catalog.registry.keywords))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a new environment with the wheels of SinkQL and of the plugin."""
    folder = tmp_path_factory.mktemp("environment")
    for project in (_ROOT, _ROOT / "examples" / "plugin"):
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project)]
        subprocess.run(build, check=True, capture_output=True, timeout=PATIENCE_S)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=PATIENCE_S
    )
    found = folder / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(found), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, *map(str, folder.glob("*.whl"))], check=True, capture_output=True, timeout=PATIENCE_S)
    # dependencies come from this environment, but the wheels take precedence
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(others))
    return found


class Project:
    """A folder with a ledger, and commands of the plugin's environment in it."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self._python = folder, python
        (folder / "ledger").mkdir()
        (folder / "ledger" / "key").write_text(f"{_KEY}\n")
        self.write(5)

    def write(self, lines: int) -> None:
        text = "".join(f"entry {number}\n" for number in range(1, lines + 1))
        (self.folder / "ledger" / "entries.txt").write_text(text)

    def python(
        self, *arguments: str, failpoints: str = "", folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= armed(failpoints) if failpoints else {}
        command = [str(self._python), *arguments]
        return subprocess.run(
            command,
            env=environment,
            cwd=folder or self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def sinkql(
        self, *arguments: str, failpoints: str = "", folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        if failpoints:
            return self.python("-m", "sinkql", *arguments, failpoints=failpoints, folder=folder)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = ForkedProcess(arguments, folder or self.folder, environment, python=str(self._python))
        told, errors = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(arguments, process.wait(), told, errors)

    def run(self, statement: str) -> subprocess.CompletedProcess[str]:
        return self.sinkql("shell", "-c", statement)

    def copied(self) -> list[tuple[int, str]]:
        """Return the rows of the sink's book, read without SinkQL."""
        commits = sorted((self.folder / "ledger" / "copy").glob("*.jsonl"))
        rows = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()[1:]]
        return [(row["line"], row["entry"]) for row in rows]


@pytest.fixture
def project(python: Path, tmp_path: Path) -> Project:
    found = Project(tmp_path, python)
    (tmp_path / "setup.sql").write_text(_SETUP)
    return found


def _expected(lines: int) -> list[tuple[int, str]]:
    return [(number, f"entry {number}") for number in range(1, lines + 1)]


def test_a_plugin_has_its_words_from_its_dataclasses_alone(project: Project) -> None:
    done = project.python("-m", "sinkql", "shell", "setup.sql")  # by an interpreter; later ones are forks
    assert done.returncode == 0, done.stderr

    shown = project.run("SHOW CREATE CONNECTION books")
    assert "TO LEDGER" in shown.stdout
    assert "API KEY = '<redacted>'" in shown.stdout
    assert "BOOK = 'entries'" in project.run("SHOW CREATE SOURCE entries").stdout
    assert "Read LEDGER: materialize.public.entries" in project.run("EXPLAIN PHYSICAL PLAN FOR SINK copy").stdout
    assert "ledger" in project.run("SHOW CONNECTIONS").stdout

    assert project.sinkql("doctor").returncode == 0
    assert project.sinkql("catalog", "verify").returncode == 0


def test_a_plugins_secret_is_shown_and_stored_nowhere(project: Project) -> None:
    assert project.sinkql("shell", "setup.sql").returncode == 0
    told = [
        project.run("SHOW CREATE CONNECTION books"),
        project.run("SELECT create_sql FROM mz_connections"),
        project.run("\\d books"),
        project.sinkql("lint", "setup.sql"),
        project.sinkql("plan", "setup.sql"),
        project.run(f"CREATE CONNECTION c TO LEDGER (FOLDER = 'ledger', API KEY '{_KEY}') NONSENSE"),
        project.run(f"CREATE CONNECTION c TO LEDGER (FOLDER = 'ledger', API KEE = '{_KEY}')"),
        project.run(f"CREATE CONNECTION c TO LEDGR (FOLDER = 'ledger', CODE = '{_KEY}')"),
        project.run(f"ALTER CONNECTION books SET (API KEY = '{_KEY}', FOLDER = 'x')"),
    ]
    assert [each.args for each in told if _KEY in each.stdout + each.stderr] == []
    kept = [path for path in (project.folder / ".sinkql").rglob("*") if path.is_file()]
    assert [path.name for path in kept if _KEY.encode() in path.read_bytes()] == []
    with sqlite3.connect(project.folder / ".sinkql" / "catalog.db") as catalog:
        texts = catalog.execute("SELECT create_sql, redacted_sql FROM items WHERE kind = 'CONNECTION'").fetchall()
    assert len(texts) == 1


def test_a_plugins_mistakes_have_hints(project: Project) -> None:
    assert "Did you mean LEDGER?" in project.run("CREATE SOURCE s FROM LEDGR CONNECTION books (BOOK = 'x')").stderr
    assert project.sinkql("shell", "setup.sql").returncode == 0
    assert "Did you mean BOOK?" in project.run("CREATE SOURCE s FROM LEDGER CONNECTION books (BOOOK = 'x')").stderr
    (project.folder / "ledger" / "key").write_text("another")
    assert "LE4001" in project.run("VALIDATE CONNECTION books").stderr


def test_a_plugins_paths_begin_in_the_project(project: Project) -> None:
    assert project.sinkql("shell", "setup.sql").returncode == 0
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    rows = "SELECT count(*) FROM entries; VALIDATE CONNECTION books;"
    done = project.sinkql("--catalog", "../.sinkql/catalog.db", "shell", "-c", rows, folder=elsewhere)
    assert (done.returncode, "5" in done.stdout, [*elsewhere.iterdir()]) == (0, True, []), done.stderr


def test_a_plugins_kinds_and_options_are_completed(project: Project) -> None:
    assert project.sinkql("shell", "setup.sql").returncode == 0
    kinds, options, books, places, names, kept = project.python(
        "-c",
        _COMPLETE,
        "CREATE CONNECTION c TO LED",
        "CREATE CONNECTION c TO LEDGER (",
        "CREATE SOURCE s FROM LEDGER CONNECTION ",
        "CREATE SINK s FROM entries INTO LEDGER CONNECTION books (",
        "CREATE SOURCE s FROM ",
    ).stdout.splitlines()
    assert kinds == "LEDGER"
    assert options == "API KEY =|FOLDER ="
    assert books == "books"
    assert places == "BOOK ="
    assert "LEDGER" in names.split("|")
    assert kept == "False"


def test_a_catalog_without_its_plugin_shows_no_secret(project: Project) -> None:
    assert project.sinkql("shell", "setup.sql").returncode == 0
    without = subprocess.run(
        [sys.executable, "-m", "sinkql", "shell", "-c", "SHOW CREATE CONNECTION books"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "TO LEDGER (FOLDER = '<redacted>', API KEY = '<redacted>')" in without.stdout
    assert _KEY not in without.stdout + without.stderr


@pytest.mark.soak
@pytest.mark.slow
def test_a_plugin_killed_before_its_commit_has_each_row_once(project: Project) -> None:
    killed = project.sinkql("exec", "setup.sql", "--once", failpoints="ledger-commit#2=kill")
    assert killed.returncode != 0
    assert project.copied() == _expected(2)

    project.write(6)
    again = project.sinkql("up", "--once")
    assert again.returncode == 0, again.stderr
    assert project.copied() == _expected(6)
