"""Input is split into statements and commands, and Enter submits it once it is complete."""

from __future__ import annotations

import pytest

from sinkql.script.split import Command, StatementText, finished, split, spoken_command, still_open


def _shown(text: str) -> list[str]:
    found = []
    for part in split(text):
        match part:
            case StatementText():
                found.append(text[part.span.start : part.span.end] + ("" if part.ended else " …"))
            case Command():
                found.append(f"{part.name}: {'|'.join(part.arguments)}")
    return found


def test_semicolons_in_strings_comments_and_names_end_nothing() -> None:
    text = """SELECT ';', ";" /* ; /* ; */ */ -- ;\n, $$;$$; SELECT 2"""
    assert _shown(text) == [text.rpartition(" SELECT 2")[0], "SELECT 2 …"]


def test_a_backslash_begins_a_command_to_the_end_of_its_line() -> None:
    assert _shown("\\d a 'b c'\nSELECT '\\d'; \\timing\nSELECT 1 \\gx") == [
        "d: a|b c",
        "SELECT '\\d';",
        "timing: ",
        "SELECT 1  …",
        "gx: ",
    ]


def test_what_is_no_sql_stays_in_its_statement() -> None:
    assert _shown("SELECT §; SELECT 2;") == ["SELECT §;", "SELECT 2;"]
    assert _shown("SELECT 1; SELECT 'open; \\d") == ["SELECT 1;", "SELECT 'open; \\d …"]


@pytest.mark.parametrize("text", ["", "  ", "\\d", "SELECT 1;", "SELECT 1; -- done", "SELECT 1 \\g", "SELECT `;"])
def test_what_is_finished_is_handed_in(text: str) -> None:
    assert finished(text)


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT ';", 'SELECT ";', "SELECT 1; /* ;", "SELECT $$ ;", "SELECT 1; x"])
def test_what_is_open_continues_in_the_next_line(text: str) -> None:
    assert not finished(text)


@pytest.mark.parametrize(
    ("text", "mark"), [("SELECT", "-"), ("f(a, '", "'"), ('"a', '"'), ("f([", "["), ("f(a", "("), ("/*", "*")]
)
def test_the_prompt_tells_what_is_open(text: str, mark: str) -> None:
    assert still_open(text) == mark


@pytest.mark.parametrize(
    ("text", "command"),
    [("help", "\\?"), ("HELP;", "\\?"), ("help create sink", "\\h create sink"), (" quit ; ", "\\q"), ("exit", "\\q"),
     ("quit now", None), ("SELECT help;", None), ("helps", None), ("SELECT 1;\nexit", None)],
)  # fmt: skip
def test_words_that_people_know_are_commands_alone(text: str, command: str | None) -> None:
    assert spoken_command(text) == command
    assert command is None or finished(text)
