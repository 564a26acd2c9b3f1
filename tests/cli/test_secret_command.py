"""`sinkql secret` reads values from a prompt or a pipe, and stores them only in the catalog."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import sys
from pathlib import Path

import pytest

from sinkql.cli.main import run_command as run
from sinkql.session import Session
from support.patience import Deadline

_CANARY = "canary-5e0b93aa"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _pipe(monkeypatch: pytest.MonkeyPatch, value: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(value)))


def _value(name: str) -> str:
    with Session() as session:
        return session.access.secret(f"materialize.public.{name}")


@pytest.mark.parametrize(
    ("piped", "value"),
    [(b"%s\n", "%s"), (b"%s", "%s"), (b"%s\r\n", "%s"), (b" %s\n\n", " %s\n")],
)
def test_piped_value_makes_a_secret_without_its_last_newline(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], piped: bytes, value: str
) -> None:
    _pipe(monkeypatch, piped % _CANARY.encode())
    assert run(["secret", "set", "token"]) == 0
    assert _value("token") == value % _CANARY
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ('secret "token" is created\n', "")
    assert all(_CANARY.encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_set_again_rotates(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Session().execute("CREATE SECRET token AS env_var('X');")
    _pipe(monkeypatch, _CANARY.encode())
    assert run(["--output", "json", "secret", "set", "token"]) == 0
    assert json.loads(capsys.readouterr().out) == {"secret": "token", "done": "rotated"}
    assert _value("token") == _CANARY


def test_if_exists_makes_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pipe(monkeypatch, _CANARY.encode())
    assert run(["secret", "set", "--if-exists", "token"]) == 0
    assert Session().execute("SHOW SECRETS;")[0].rows == ()


@pytest.mark.parametrize(
    ("value", "code"), [(b"", "SQ4124"), (b"\n", "SQ4124"), (b"\xff" + _CANARY.encode(), "SQ4125")]
)
def test_value_that_is_none_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: bytes, code: str
) -> None:
    _pipe(monkeypatch, value)
    assert run(["secret", "set", "token"]) == 4
    shown = capsys.readouterr().err
    assert code in shown
    assert _CANARY not in shown


def test_name_of_another_item_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Session().execute("CREATE SOURCE token FROM LOAD GENERATOR COUNTER;")
    _pipe(monkeypatch, _CANARY.encode())
    assert run(["secret", "set", "token"]) == 1
    assert "SQ2002" in capsys.readouterr().err


def test_prompt_does_not_show_what_is_typed(folder: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "sinkql", "secret", "set", "token"])
    seen, deadline = b"", Deadline()
    for awaited in (b"Value of secret token: ", b"Once more: ", b"is created"):
        while awaited not in seen:
            readable, _, _ = select.select([terminal], [], [], deadline.left())
            assert readable, f"{awaited!r} did not come\n{seen!r}"
            seen += os.read(terminal, 1024)
        if awaited.endswith(b": "):
            os.write(terminal, _CANARY.encode() + b"\n")
    os.waitpid(child, 0)
    os.close(terminal)
    assert _CANARY.encode() not in seen
    assert _value("token") == _CANARY


def test_list_tells_where_values_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Session().execute(
        f"CREATE SECRET a AS '{_CANARY}'; CREATE SECRET b AS vault('kv/app', 'key'); CREATE SECRET c AS env_var('X');"
    )
    assert run(["--output", "json", "secret", "list"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"secret": "a", "kept in": "catalog"},
        {"secret": "b", "kept in": "vault('kv/app', 'key')"},
        {"secret": "c", "kept in": "env_var('X')"},
    ]


def test_check_reads_each_and_shows_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SINKQL_TEST_SET", _CANARY)
    monkeypatch.delenv("SINKQL_TEST_UNSET", raising=False)
    Session().execute(
        f"CREATE SECRET a AS '{_CANARY}'; CREATE SECRET b AS env_var('SINKQL_TEST_SET');"
        "CREATE SECRET c AS env_var('SINKQL_TEST_UNSET');"
    )
    assert run(["secret", "check", "a", "b"]) == 0
    assert run(["secret", "check"]) == 4
    assert run(["secret", "check", "nope"]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("can be read") == 4
    assert printed.err.count("SQ4110") == 1
    assert "SQ2001" in printed.err
    assert _CANARY not in printed.out + printed.err
