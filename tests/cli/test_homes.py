"""Users without a home, and paths with ~: one helper finds all folders of a user, and no folder is named ~."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sinkql
from sinkql.errors import SinkqlError
from sinkql.local_path import cache_folder, expand_home, home_folder, in_project
from sinkql.session import Session
from support.nameless import NAMELESS, can_be_nameless

_EACH = """
import sys
from pathlib import Path
from sinkql.errors import SinkqlError
from sinkql.local_path import cache_folder, home_folder
assert home_folder() is None
from sinkql.parser import parse
from support.keywords import WORDS
parse("SELECT 1;", WORDS)
from sinkql.runtime.spark.class_archive import archive_of
archive = archive_of(Path(sys.prefix), Path(sys.prefix))
archive.make()
assert archive.option == ""
from sinkql.runtime.spark.package import cached_archives
try:
    cached_archives()
except SinkqlError as error:
    assert error.code == "SQ4054" and "XDG_CACHE_HOME" in error.hint, error
else:
    raise AssertionError("packages were packed")
from sinkql.catalog.secret.providers import from_vault
try:
    from_vault("s", "kv/a", "b")
except SinkqlError as error:
    assert error.code in ("SQ4130", "SQ4131"), error
"""


_NAMELESS = """
import pwd
def missing(user):
    raise KeyError(user)
pwd.getpwuid = missing
"""


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the user's home from Python."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", _missing)


def _missing(user: int) -> object:
    raise KeyError(user)


def test_a_user_without_a_home_makes_no_folder(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "VAULT_ADDR": "http://127.0.0.1:1"}
    mapped = can_be_nameless()  # not all machines allow this
    command = [*(NAMELESS if mapped else ()), sys.executable, "-B", "-c", _EACH if mapped else _NAMELESS + _EACH]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, [*tmp_path.iterdir()]) == (0, "", [])


@pytest.mark.usefixtures("nobody")
def test_what_can_be_made_again_is_kept_nowhere_without_a_home() -> None:
    assert home_folder() is None
    with pytest.raises(OSError, match="Not a directory"):
        cache_folder().mkdir(parents=True)


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for named, expected in (("caches", tmp_path / ".cache"), ("", tmp_path / ".cache"), ("/kept", Path("/kept"))):
        monkeypatch.setenv("XDG_CACHE_HOME", named)
        assert cache_folder() == expected / "sinkql"
    monkeypatch.setenv("HOME", "relative")
    assert home_folder() is None


def test_a_home_is_where_HOME_says(monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N802 the variable's name
    monkeypatch.setenv("HOME", "/home/ann")
    found = [str(in_project(path, Path("/p"))) for path in ("~", "~/a/b", "~root", "a/~", "./~/a", "/a")]
    assert found == ["/home/ann", "/home/ann/a/b", "/root", "/p/a/~", "/p/~/a", "/a"]


@pytest.mark.parametrize("path", ["~nobody-of-this-name/a", "~nobody-of-this-name.csv"])
def test_a_home_of_nobody_is_told_where_it_stands(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sinkql.connect() as session:
        for statement in (
            f"SELECT * FROM read_csv('{path}');",
            f"CREATE SOURCE s FROM FILES (PATH = '{path}') FORMAT JSON;",
            f"CREATE CONNECTION c TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{path}');",
        ):
            _refused(session, statement)
    with pytest.raises(SinkqlError) as caught:
        expand_home(path)
    assert caught.value.hint == f"Write the whole path; a file whose name begins with ~ is ./{path}."


@pytest.mark.usefixtures("nobody")
def test_the_home_of_a_user_without_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sinkql.connect() as session:
        session.execute("CREATE SECRET s AS file('~/key');")
        with pytest.raises(SinkqlError) as caught:
            session.access.secret("materialize.public.s")
        assert caught.value.code == "SQ4157"
        assert caught.value.hint == "Write the whole path, or set HOME to the folder that ~ stands for."
        _refused(session, "SELECT * FROM '~/a.csv';")


def _refused(session: Session, statement: str) -> None:
    with pytest.raises(SinkqlError) as caught:
        session.execute(statement)
    assert caught.value.code == "SQ4157", statement


def test_a_home_is_asked_for_in_one_place() -> None:
    asks = re.compile(r"expanduser|Path\.home|getpass|getuser|XDG_CACHE_HOME\"")
    root = Path(sinkql.__file__).parent
    named = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if asks.search(path.read_text())}
    assert named == {
        "local_path.py",
        "shell/editor/completer.py",  # prompt_toolkit's own completion
    }
