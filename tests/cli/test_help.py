"""`sinkql help` searches a folder of pages, and prints the result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.tmux import Terminal
from sinkql import documentation
from sinkql.cli.main import run_command
from sinkql.cli.output import Output
from sinkql.documentation import Documentation, Entry, Page
from sinkql.errors import SinkqlError
from support.programs import need

_SECONDS = 0.4
_PAGES = {
    "index": "# Documentation\n\nWhere is what?\n",
    "quickstart": "---\nkeywords: [first steps]\n---\n# Quickstart\n\nRun a pipeline. It has two tables.\n",
    "errors/index": "# Error codes\n\nAll codes.\n\n| code | cause |\n|---|---|\n| [SQ2342](SQ2342.md) | two sinks |\n",
    "errors/SQ2342": "# SQ2342: another sink writes\n\nTwo sinks would undo commits.\n\n## Example\n\nx\n",
    "errors/SQ4115": "# SQ4115: catalog file does not exist\n\nThe disk has no catalog.\n",
    "sql/create-sink": "# CREATE SINK\n\nWrite a relation to a table.\n\n```sql\n# no heading\nCREATE SINK a;\n```\n",
    "sql/create-schema-database": "# CREATE SCHEMA, CREATE DATABASE\n\nMake a place for names.\n",
    "functions/date-time": "# Dates and times\n\nAll of them.\n\n| function | description |\n|---|---|\n"
    "| `date_trunc(field text, timestamp) → timestamp` | Round down. |\n"
    "| `now()` | The time. |\n|  | In UTC. |\n| `age()` | No. |\n",
    "functions/window": "# Window functions\n\nOf rows.\n\n| function | description |\n|---|---|\n"
    "| `lag(value)` | The row before. |\n",
    "connectors/kafka-sink": "# Kafka sink\n\nWrite a topic.\n\n## Options\n\n| option | value | meaning |\n"
    "|---|---|---|\n"
    "| `TOPIC`, `OLD TOPIC` | string | the [name](x.md) |\n| `COMMIT INTERVAL` | interval | between transactions |\n",
    "connectors/iceberg-sink": "# Iceberg sink\n\nWrite a table.\n\n| option | meaning |\n|---|---|\n"
    "| `COMMIT INTERVAL` | between snapshots |\n",
    "reference/options": "# Options\n\nAll.\n\n| option | meaning |\n|---|---|\n| `COMMIT INTERVAL` | as above |\n",
    "reference/system-catalog": "# System catalog\n\nRelations.\n\n## `mz_internal.mz_sink_progress`\n\n"
    "How far sinks are.\n\n### Columns\n\nx\n\n## Next\n\ny\n",
    "reference/cli": "# Commands\n\nAll.\n\n## sinkql status\n\nShow sinks.\n\n## sinkql explain\n\nShow plans.\n",
    "sql/explain": "# EXPLAIN\n\nShow the plan.\n",
    "how-to/monitor": "---\nkeywords: [delay, metrics]\n---\n# Monitor: lag and behind\n\nSee the lag of sinks.\n",
    "how-to/alerts/lag": "# Alert: lag\n\nA sink is late.\n",
    "how-to/slow": "# It is slow\n\n<!-- setup: demo -->\n\nFind [the cause](monitor.md).\n\n> [!WARNING]\n> Rows.\n"
    + "\nA line.\n" * 60,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "docs"
    for name, text in _PAGES.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(documentation, "_folder", lambda: folder)
    return folder


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("SQ2342", "errors/SQ2342"),
        ("sq2342", "errors/SQ2342"),
        ("2342", "errors/SQ2342"),
        ("error[SQ2342]", "errors/SQ2342"),
        ("quickstart", "quickstart"),
        ("create sink", "sql/create-sink"),
        ("CREATE  SINK;", "sql/create-sink"),
        ("create-sink", "sql/create-sink"),
        ("create database", "sql/create-schema-database"),
        ("how-to/monitor", "how-to/monitor"),
        ("alert lag", "how-to/alerts/lag"),
        ("it is slow", "how-to/slow"),
        ("errors", "errors/index"),
        ("help with slow", "how-to/slow"),
        ("lag", "how-to/alerts/lag"),
        ("first steps", "quickstart"),
    ],
)
def test_a_name_finds_its_page(folder: Path, words: str, page: str | None) -> None:
    found = Documentation().find(words).page
    assert (None if found is None else found.path) == page


@pytest.mark.parametrize(
    ("words", "entries"),
    [
        ("date_trunc", [("functions/date-time", "date_trunc(field text, timestamp) → timestamp", "Round down.")]),
        ("now()", [("functions/date-time", "now()", "The time.")]),
        ("topic", [("connectors/kafka-sink", "TOPIC, OLD TOPIC", "the name")]),
        ("OLD TOPIC", [("connectors/kafka-sink", "TOPIC, OLD TOPIC", "the name")]),
        ("mz_sink_progress", [("reference/system-catalog", "mz_internal.mz_sink_progress", "How far sinks are.")]),
        (
            "mz_internal.mz_sink_progress",
            [("reference/system-catalog", "mz_internal.mz_sink_progress", "How far sinks are.")],
        ),
        ("status", [("reference/cli", "sinkql status", "Show sinks.")]),
        ("sinkql explain", [("reference/cli", "sinkql explain", "Show plans.")]),
        ("sinkql status", [("reference/cli", "sinkql status", "Show sinks.")]),
        (
            "commit interval",
            [
                ("connectors/iceberg-sink", "COMMIT INTERVAL", "between snapshots"),
                ("connectors/kafka-sink", "COMMIT INTERVAL", "between transactions"),
            ],
        ),
    ],
)
def test_a_name_finds_its_section_or_row(folder: Path, words: str, entries: list[tuple[str, str, str]]) -> None:
    found = Documentation().find(words)
    assert [(each.page.path, each.name, each.summary) for each in found.entries] == entries


def test_a_row_is_shown_with_the_head_of_its_table_and_a_section_whole(folder: Path) -> None:
    (row,) = Documentation().find("topic").entries
    assert row.text.splitlines() == [
        "**Kafka sink: Options**",
        "",
        "| option | value | meaning |",
        "|---|---|---|",
        "| `TOPIC`, `OLD TOPIC` | string | the [name](x.md) |",
    ]
    (function,) = Documentation().find("now").entries
    assert function.text.splitlines()[-2:] == ["| `now()` | The time. |", "|  | In UTC. |"]
    (section,) = Documentation().find("mz_sink_progress").entries
    assert section.text == "## `mz_internal.mz_sink_progress`\n\nHow far sinks are.\n\n### Columns\n\nx\n"


def test_of_more_than_three_rows_there_is_a_list(folder: Path) -> None:
    for number in range(2):
        (folder / f"connectors/more{number}.md").write_text(_PAGES["connectors/iceberg-sink"])
    found = Documentation().find("commit interval")
    assert found.entries == ()
    assert [each.page.path for each in found.listed if isinstance(each, Entry)] == [
        "connectors/iceberg-sink",
        "connectors/kafka-sink",
        "connectors/more0",
        "connectors/more1",
    ]


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("delay", "how-to/monitor"),
        ("lags", "how-to/alerts/lag"),
        ("what is the lag and metrics of my sinks", "how-to/monitor"),
        ("two sinks", "errors/SQ2342"),
        ("kafka topics", "connectors/kafka-sink"),
    ],
)
def test_other_words_find_pages_by_rank(folder: Path, words: str, first: str) -> None:
    found = Documentation().find(words)
    paths = [each.path for each in ([found.page] if found.page else found.listed) if isinstance(each, Page)]
    assert paths[0] == first


def test_names_that_are_near_are_offered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["help", "quikstart"]) == 1
    assert capsys.readouterr() == (
        "",
        'the documentation has nothing about "quikstart"\nhint: Try sinkql help quickstart.\n',
    )
    assert Documentation().find("SQ2343").near[0] == "SQ2342"
    assert run_command(["help", "xyzzy"]) == 1
    assert capsys.readouterr().err.endswith("hint: sinkql help lists all pages.\n")


def test_a_page_is_printed_as_it_is_where_no_terminal_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["help", "create", "sink"]) == 0
    assert capsys.readouterr().out == _PAGES["sql/create-sink"]
    assert run_command(["help", "monitor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["# Monitor: lag and behind", "", "See the lag of sinks.", "", "See also:", lines[-1]]
    assert lines[-1] == "  It is slow  sinkql help slow"


def test_pages_that_are_also_about_it_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["help", "lag"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# Alert: lag"
    assert lines[-4:] == [
        "More: `sinkql help window`",
        "",
        "See also:",
        "  Monitor: lag and behind  sinkql help monitor",
    ]


def test_as_data_it_is_an_object_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--output", "json", "help", "quickstart"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {
            "page": "quickstart",
            "title": "Quickstart",
            "summary": "Run a pipeline.",
            "markdown": "# Quickstart\n\nRun a pipeline. It has two tables.\n",
        }
    ]
    assert run_command(["--output", "json", "help", "date_trunc"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (row["page"], row["summary"]) == ("functions/date-time", "Round down.")
    assert run_command(["--output", "json", "help", "quikstart"]) == 1
    assert json.loads(capsys.readouterr().out) == {"found": False, "words": "quikstart", "near": ["quickstart"]}


def test_without_words_all_pages_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["help"]) == 0
    shown = capsys.readouterr().out
    missing = [
        name
        for name in _PAGES
        if name.count("/") < 2 and "/SQ" not in name and Page(name, _PAGES[name]).title not in shown
    ]
    assert missing == []
    assert "SQ2342" not in shown


@pytest.mark.parametrize("page", sorted(_PAGES))
def test_the_command_of_a_page_shows_it(folder: Path, page: str) -> None:
    found = Documentation().page(page)
    assert found is not None
    assert Documentation().find(found.command).page == found


def test_without_a_folder_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentation, "_folder", lambda: tmp_path / "none")
    assert run_command(["help", "quickstart"]) == 1
    assert run_command(["help"]) == 0


@pytest.mark.parametrize("words", ["SQ2342", "date_trunc", "disk is full"])
def test_it_answers_fast(words: str) -> None:
    """Only the CPU time of the command counts, because other processes may delay it."""
    process = subprocess.Popen([sys.executable, "-m", "sinkql", "help", *words.split()], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert used.ru_utime + used.ru_stime < _SECONDS


# --- on a terminal --------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need("tmux")
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


@pytest.mark.long
def test_a_terminal_draws_a_page(terminal: Terminal) -> None:
    terminal.start("help", "SQ2209", environment={"SINKQL_PAGER": "sed s/^/paged/"})
    shown = terminal.wait_for("exit=0")
    assert "# SQ2209" not in shown
    assert "SQ2209" in shown
    assert "](" not in shown
    assert "paged" not in shown


@pytest.mark.long
def test_a_pager_has_a_page_that_is_longer_than_the_screen(terminal: Terminal) -> None:
    terminal.start("help", "errors", environment={"SINKQL_PAGER": "sed s/^/paged/"})
    assert "paged" in terminal.wait_for("exit=0")


@pytest.mark.long
def test_an_error_on_a_terminal_names_the_command_for_its_page(terminal: Terminal) -> None:
    terminal.start("preview", "nothing")
    assert "more: sinkql help SQ4115\nexit=4" in terminal.wait_for("exit=")


def test_an_error_in_a_pipe_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").error(SinkqlError("SQ2342", "x"))
    assert capsys.readouterr().err == "error[SQ2342]: x\n"


def test_an_error_of_another_package_has_no_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sinkql.cli.output import more

    assert more(SinkqlError("SQ2342", "x")) == "more: sinkql help SQ2342"
    assert more(SinkqlError("SQ2001", "x")) == ""
