"""The shell in a real terminal: keys in, screen out."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from shell.tmux import Terminal
from sinkql.session import Session
from sinkql.shell.terminal import _interrupted

pytestmark = pytest.mark.long

_HISTORY = Path(".sinkql") / "history"


def _text(screen: str) -> str:
    """Return the screen without empty lines and trailing blanks."""
    return "\n".join(line.rstrip() for line in screen.splitlines() if line.strip())


def test_a_statement_continues_until_its_semicolon_and_the_prompt_tells_what_is_open(shell: Terminal) -> None:
    for line in ("SELECT 'it;", "is' AS a, (", "2) AS b"):
        shell.enter(line)
    shell.enter(";")
    assert "\n".join(
        [
            "sinkql=> SELECT 'it;",
            "sinkql'> is' AS a, (",
            "sinkql(> 2) AS b",
            "sinkql-> ;",
            "a     b",
            "───────",
            "it;   2",
            "is",
            "(1 row)",
        ]
    ) in _text(shell.wait_for("^\\(1 row\\)"))


@pytest.mark.soak
def test_alt_enter_and_ctrl_j_begin_a_line_in_a_finished_statement(shell: Terminal) -> None:
    shell.type("SELECT 1 AS one;")
    shell.keys("M-Enter")
    shell.type("SELECT 2 AS two;")
    shell.keys("C-j")
    shell.enter("SELECT 3 AS three;")
    shell.wait_for("^\\(1 row\\)", times=3)


def test_the_menu_offers_what_may_stand_there_and_tab_takes_it(shell: Terminal) -> None:
    shell.type("CREATE SINK s FROM ")
    menu = shell.wait_for("daily +materialized view")
    assert re.search("orders +source", menu)
    assert "lake" not in menu
    shell.keys("Tab")
    shell.wait_for("FROM orders")
    shell.keys("Tab")
    shell.wait_for("FROM daily")
    shell.keys("Enter")  # accepts the choice, and does not end the line
    shell.type(" INTO ICEBERG CATALOG CONNECTION lake (TAB")
    shell.wait_for("TABLE = +text, required")
    shell.keys("Tab")
    shell.type("'t', NAMESPACE = 'n') KEY (cus")
    shell.wait_for("customer +bigint")
    shell.keys("Tab")
    shell.type(", day) MODE UPS")
    screen = shell.wait_for(r"KEY \(customer, day\) MODE UPS")
    assert re.search(r"s FROM daily INTO ICEBERG CATALOG CONNECTION lake \(TABLE = 't', NAMES", screen)


def test_an_error_has_its_caret_under_the_mistake_and_a_hint(shell: Terminal) -> None:
    shell.enter("SELECT name,")
    shell.enter("  nam FROM mz_sinks;")
    assert "\n".join(
        [
            "sinkql->   nam FROM mz_sinks;",
            'error[SQ2204]: column "nam" does not exist',
            "2 |   nam FROM mz_sinks;",
            "      ^^^",
            'hint: Did you mean "name"?',
        ]
    ) in _text(shell.wait_for("^hint"))


def test_ctrl_c_leaves_the_statement_and_ctrl_d_the_shell(shell: Terminal) -> None:
    shell.enter("SELECT 'typed,")
    shell.keys("C-c")
    shell.enter("SELECT 1 AS a \\watch 0.05")
    shell.wait_for("^\\(1 row\\)", times=2)
    shell.keys("C-c")
    shell.wait_for("^Canceled.")
    shell.enter("SELECT 'still' || ' here' AS b;")
    shell.wait_for("^still here")
    shell.keys("C-d")
    shell.wait_for("^exit=0")


def test_keys_pressed_while_a_statement_runs_are_there_afterwards(shell: Terminal) -> None:
    shell.enter("SELECT 1 AS a \\watch 0.3 3")
    shell.wait_for("^\\(1 row\\)")
    shell.enter("SELECT 'typed' || ' ahead' AS b;")
    shell.wait_for("^typed ahead")
    shell.enter("SELECT 'done' AS c;")
    screen = shell.wait_for("^done")
    assert len(re.findall("^typed ahead", screen, re.MULTILINE)) == 1


@pytest.mark.soak
def test_keys_pressed_while_the_shell_starts_are_typed_at_its_first_prompt(
    session: Session, terminal: Terminal
) -> None:
    terminal.start("shell")
    terminal.type("SELECT 'typed' || ' early' AS a;")
    terminal.keys("Enter")
    terminal.wait_for("^typed early")


@pytest.mark.soak
def test_words_that_people_know_need_no_backslash(shell: Terminal) -> None:
    shell.enter("help begin;")
    shell.wait_for("^Begin a transaction")
    shell.enter("exit")
    shell.wait_for("^exit=0")


def test_history_recalls_what_was_typed_but_no_secret(shell: Terminal, folder: Path) -> None:
    shell.enter("SELECT 'remembered' AS a;")
    shell.wait_for("^remembered")
    shell.enter("CREATE SECRET s AS 'hunter2-canary';")
    shell.wait_for("^CREATE SECRET")
    shell.enter("\\set password 'hunter2-variable'")
    shell.wait_for("^sinkql=>", times=4)
    shell.keys("Up")
    shell.wait_for("^sinkql=> SELECT 'remembered' AS a;", times=2)
    shell.keys("Enter")
    shell.wait_for("^remembered", times=2)
    text = (folder / _HISTORY).read_text()
    assert "remembered" in text
    assert "hunter2" not in text
    assert stat.S_IMODE((folder / _HISTORY).stat().st_mode) == 0o600
    shell.keys("C-r")
    shell.type("emem")
    shell.wait_for(r"I-search backward: emem")
    shell.keys("Enter", "Enter")
    shell.wait_for("^remembered", times=3)


@pytest.mark.soak
def test_d_describes_an_item_and_x_turns_rows(shell: Terminal) -> None:
    shell.enter("\\d daily_sink")
    screen = shell.wait_for("^  WITH")
    for part in ('sink "daily_sink"', r"customer +bigint +true +key", r"mode +upsert by key \(customer, day\)",
                 r"commits +every 1 s", r"status +created", "^CREATE SINK"):  # fmt: skip
        assert re.search(part, screen, re.MULTILINE), part
    shell.enter("\\x")
    shell.enter("SELECT name, type FROM mz_sinks;")
    assert "\n".join(["─ row 1 ────────────────────────────────", "name  daily_sink", "type  iceberg"]) in _text(
        shell.wait_for("^type")
    )


def test_what_is_longer_than_the_screen_goes_through_the_pager(shell: Terminal) -> None:
    shell.enter("\\?")
    shell.wait_for("^:")
    assert "Ctrl-D" not in shell.visible()
    shell.keys("G")
    shell.wait_for("Ctrl-D +leave the shell")
    shell.keys("q")
    shell.wait_for("^sinkql=> *$")
    shell.enter("SELECT 'back' AS a;")
    shell.wait_for("^back")


@pytest.mark.soak
def test_e_edits_the_last_statement_and_enter_runs_it(shell: Terminal) -> None:
    shell.enter("SELECT 'one' AS a;")
    shell.wait_for("^one")
    shell.enter("\\e")
    shell.wait_for("sinkql=> SELECT 'two' AS a;")
    shell.keys("Enter")
    shell.wait_for("^two")


@pytest.mark.soak
def test_an_unknown_command_is_told_the_nearest(shell: Terminal) -> None:
    shell.enter("\\timming")
    shell.wait_for(r"^hint: Did you mean \\timing\?")


def test_a_failure_that_ctrl_c_caused_is_ctrl_c() -> None:
    failure = OSError()
    assert not _interrupted(failure)
    failure.__context__ = KeyboardInterrupt()  # as raised by a client that closes an interrupted connection
    assert _interrupted(failure)


def test_a_sink_that_does_not_run_is_told_at_the_start(shell: Terminal) -> None:
    shell.wait_for(r"^daily_sink is not running\. \\start starts it\.")


@pytest.mark.soak
def test_a_long_line_is_cut_around_the_mistake(shell: Terminal) -> None:
    shell.enter(f"SELECT {', '.join(f'{number} AS long_name_{number}' for number in range(20))}, nam FROM mz_sinks;")
    screen = shell.wait_for("^hint")
    (marked,) = re.findall(r"^(1 \| ….*)\n( *)\^\^\^$", screen, re.MULTILINE)
    assert marked[0][len(marked[1]) :].startswith("nam ")
