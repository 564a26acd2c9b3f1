"""Processes of a view and two of its sinks are killed: the next one goes on, no row lost or doubled."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.command import run, start
from support.fault import armed
from view.test_view_in_spark import add, expected, script, tables

pytestmark = pytest.mark.slow


def test_a_view_and_its_sinks_go_on_where_they_were_killed(tmp_path: Path) -> None:
    names = script(tmp_path, 2)
    for number, rules in enumerate(("view-entry-made#2=kill", "commit-reply#2=kill", "view-entry#2=kill")):
        add(tmp_path, 2 * number)
        add(tmp_path, 2 * number + 1)
        running = start("exec", "pipeline.sql", folder=tmp_path, environment=armed(rules))
        try:
            assert running.end() == -signal.SIGKILL, rules
        finally:
            running.kill()
    ended = run("exec", "--once", "pipeline.sql", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert tables(tmp_path, names) == dict.fromkeys(names, expected(tmp_path))
