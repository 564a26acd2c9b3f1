"""Every form of the dialect through a session: it runs, or gets an error that calls it neither broken nor unknown."""

from __future__ import annotations

from pathlib import Path

from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.session import Session
from support.words import WORDS

_FORMS = Path(__file__).with_name("dialect.sql").read_text()


def test_no_form_of_the_dialect_gets_a_syntax_error_when_it_runs(tmp_path: Path) -> None:
    wrong: list[tuple[str, str]] = []
    ran = 0
    for statement in parse(_FORMS, WORDS):
        text = _FORMS[statement.span.start : statement.span.end]
        with Session(tmp_path / "catalog.db") as session:
            try:
                session.execute(f"{text};")
                ran += 1
            except SinkqlError as error:
                if error.code.startswith("SQ1") or error.code == "SQ2201":
                    wrong.append((text, str(error)))
    assert wrong == []
    assert ran > 60
