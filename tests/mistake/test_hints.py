"""Hints that suggest an edit at one place are right: with the edit, a golden case gets past its error."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from golden import broken, casefile
from golden.commands import GoldenFile
from golden.test_golden import FILES, output
from sinkql.errors import SinkqlError, Span
from sinkql.parser import parse
from sinkql.parser.hint.syntax_error import FORMS
from sinkql.session import Session

pytestmark = pytest.mark.long

_FILLED = {
    "a name": "x", "a value": "'x'", '"=" and a value': "= 'x'", "'…'": "'x'", "an expression": "1 = 1",
    "FROM and a relation": "FROM orders", "THEN and an expression": "THEN 1", "a field": "year",
}  # fmt: skip
_ERRORS = [path for path in FILES if path.parent.name in ("parse", "plan") and "\nhint: " in path.read_text("utf-8")]
_SYNTAX = re.compile("SQ1...|SQ2201|SQ2224")
_NO_SUCH_OPTION = re.compile("SQ1...|SQ2101")
_HABIT = "SQ1006"


def _written(shown: str) -> str:
    """Return the SQL that a hint shows, with its placeholders filled in."""
    return _FILLED.get(shown) or re.sub(r'"(\W+)"', r"\1", shown).replace("(…)", "(id)")


def _mended(text: str, error: SinkqlError) -> str | None:
    """Return a script with the edit that a hint suggests; None if it does not suggest one edit."""
    assert error.span is not None
    before, wrong, after = text[: error.span.start], text[error.span.start : error.span.end], text[error.span.end :]
    match re.split(r"(?<=[.?])$|; |, with |, after |, such as ", error.hint or "")[0]:
        case hint if found := re.fullmatch(r"Did you mean (.+)\(\)\?", hint):
            return before + re.sub(r"^\w+", found[1], wrong) + after
        case hint if found := re.fullmatch(r"Did you mean ('.+')\?", hint):
            return before + re.sub(r"'.*'", found[1], wrong) + after
        case hint if found := re.fullmatch(r"Did you mean (.+)\?", hint):
            return before + found[1] + after
        case hint if found := re.fullmatch(r"Write ((?:(?! or | \().)+) (instead of|for a) .+", hint):
            return before + _written(found[1]) + after
        case hint if hint.startswith("Write LATERAL before the subquery"):
            place = before.upper().rfind("(SELECT")
            return f"{before[:place]}LATERAL {before[place:]}{wrong}{after}"
        case hint if found := re.fullmatch(r"Write (.+) before [^:]+", hint):
            return f"{before} {_written(found[1])} {wrong}{after}"
        case hint if found := re.fullmatch(r"Leave out (.+) before .+", hint):
            place = before.upper().rfind(_written(found[1]).upper())
            return before[:place] + before[place + len(_written(found[1])) :] + wrong + after
        case hint if found := re.fullmatch(r"Leave out ([^…,:]+)[^…]*\.", hint):
            needless = found[1] if found[1] in wrong else wrong
            if re.search(rf"{re.escape(needless)}\s*=", wrong + after):  # an option: its value would have to go too
                return None
            return before + wrong.replace(needless, "", 1) + after
        case hint if hint.startswith("End the statement before it"):
            return before + ";" + wrong + after
    return None


_ASSIGNED = re.compile(
    r"([A-Z][A-Z0-9]*(?: [A-Z0-9]+)*) = ('[^']*'|SECRET \w+|\w+|MAP\[[^]]*\]|\([^)]*\))\)?(?=[,.; ]|$)"
)
_VALUE = r"('[^']*'|SECRET \w+|MAP\[[^]]*\]|\([^)]*\)|[\w.:/-]+)"
_LIST = re.compile(r"(?:\bWITH|\bSET|\b(?:CONNECTION|TO|FROM)(?: \w+)+|\bCLUSTER \S+|\bFILES) \(", re.IGNORECASE)
_KIND = re.compile(r"\b(?:CONNECTION \w+|TO \w+)(?= FOR|;)", re.IGNORECASE)


def _with_options(text: str, error: SinkqlError) -> Iterator[str]:
    """Yield the script with the options that a hint names, in each list of options that the hint may mean."""
    assert error.span is not None
    said = re.match(r"(?:Add|Write) (WITH \()?(?=[A-Z ]+ = )([^;]*)", error.hint or "")
    if said is None:
        return
    given = [
        f"{each[1]} = {each[2]}" for each in _ASSIGNED.finditer(re.split(r", or | or ", said[2])[0].replace("…", "x"))
    ]
    changed, added = text, []
    for each in given:
        there = re.compile(rf"\b{each.partition(' = ')[0]}\s*=?\s*{_VALUE}", re.IGNORECASE)
        added += [] if there.search(text) else [each]
        changed = there.sub(each.replace("\\", r"\\"), changed)
    if not added:
        yield changed
    option = ", ".join(added or given)
    for begun in _LIST.finditer(changed):
        if not said[1] or begun[0].upper().startswith("WITH"):
            yield f"{changed[: begun.end()]}{option}, {changed[begun.end() :]}"
    yield f"{text.rstrip().rstrip(';')} WITH ({option});"
    yield from (f"{text[: kind.end()]} ({option}){text[kind.end() :]}" for kind in _KIND.finditer(text))
    yield re.sub(r"RESET \(.*\)", f"SET ({option})", text)
    yield f"{text[: error.span.start]}{option}{text[error.span.end :]}"  # instead of the wrong text
    yield re.sub(r"(CLUSTER \w+) .*", rf"\1 ({option});", text)
    yield re.sub(r" \(VALUE DECODING.*", f" WITH ({option});", text)


def _is_unhelped(after: SinkqlError | None, before: SinkqlError) -> bool:
    """Return whether the options did not help: the error is the same, or it says that an option is unknown."""
    return after is not None and (after.message == before.message or _NO_SUCH_OPTION.fullmatch(after.code) is not None)


def _outcome(folder: Path, text: str) -> SinkqlError | None:
    """Run a script in a copy of the prepared catalog, since it may drop items; return its error."""
    for each in folder.glob("catalog.db*"):
        shutil.copy(each, folder / each.name.replace("catalog", "copy"))
    try:
        Session(folder / "copy.db").execute(text)
    except SinkqlError as error:
        return error
    return None


def _further(before: SinkqlError, after: SinkqlError, longer: int) -> bool:
    """Return whether the next error is further on in the script, or no longer a syntax error."""
    assert before.span is not None
    if after.span is not None and after.span.start - longer >= before.span.end:
        return True
    return after.code != before.code and _SYNTAX.fullmatch(after.code) is None


def test_hints_of_one_place_lead_past_the_mistake(tmp_path: Path) -> None:
    session = broken.prepared(tmp_path)
    applied, wrong = 0, []
    for path in sorted(broken.HERE.glob("*.txt")):
        for found in casefile.read(path.read_text("utf-8"))[0]:
            case = broken.read("", found.input)
            error = broken.run(session, case.text)
            mended = _mended(case.text, error) if error is not None and error.code != _HABIT else None
            if error is None or mended is None:
                continue
            applied += 1
            after = _outcome(tmp_path, mended)
            if after is not None and not _further(error, after, len(mended) - len(case.text)):
                wrong.append(f"{path.name}:{found.line}: {error.hint} → {mended}: {after.message}")
    print(applied, *wrong, sep="\n  ")
    assert applied >= 90
    assert not wrong


_RENDERED = re.compile(
    r"^error\[(SQ\d+)\]: (.*)\n((\d+) \| ).*\n( *)(\^+)(?:\ndetail: .*)?(?:\nhint: (.*))?", re.MULTILINE
)


def _shown(output: str, text: str) -> SinkqlError | None:
    """Return the error that an output shows for a script; None if it shows none with a position."""
    found = _RENDERED.search(output)
    if found is None:
        return None
    code, message, margin, line, spaces, carets, hint = found.groups()
    if "…" in found[0].splitlines()[1]:  # the source line is cut off
        return None
    start = sum(map(len, text.splitlines(keepends=True)[: int(line) - 1])) + len(spaces) - len(margin)
    return SinkqlError(code, message, Span(start, start + len(carets)), hint=hint)


def _tried(file: GoldenFile, case: casefile.Case) -> SinkqlError | None:
    """Return the error that a case shows, run in a copy of the present state; None if it shows none."""
    return _shown(output(GoldenFile(file.path, file.folder, copy.deepcopy(file.things)), case), case.input)


@pytest.mark.share(3)
@pytest.mark.parametrize("path", _ERRORS, ids=lambda path: path.stem)
def test_hints_of_golden_errors_lead_past_the_mistake(path: Path, tmp_path: Path) -> None:
    file = GoldenFile(path, tmp_path / "file")
    file.folder.mkdir()
    wrong = []
    for number, case in enumerate(casefile.read(path.read_text("utf-8"))[0]):
        if "hint: " not in case.output:
            output(file, case)
            continue
        before = GoldenFile(path, tmp_path / str(number), copy.deepcopy(file.things))
        shutil.copytree(file.folder, before.folder)
        error = _shown(output(file, case), case.input)
        if error is not None and path.parent.name == "plan" and (tries := list(_with_options(case.input, error))):
            if all(_is_unhelped(_tried(before, replace(case, input=text)), error) for text in tries):
                wrong.append(f"{path.name}:{case.line}: {error.hint}")
            continue
        mended = _mended(case.input, error) if error is not None and error.code != _HABIT else None
        if error is None or mended is None:
            continue
        after = _shown(output(before, replace(case, input=mended)), mended)
        if after is not None and not _further(error, after, len(mended) - len(case.input)):
            wrong.append(f"{path.name}:{case.line}: {error.hint} → {mended}: {after.message}")
    assert not wrong, "\n".join(wrong)


_JSON = "CREATE SOURCE s (id bigint) FROM FILES (PATH = 'in') FORMAT JSON"
_INSTEAD = (
    (f"{_JSON} ENVELOPE UPSERT (VALUE DECODING ERRORS = (INLINE));", f"{_JSON} WITH (ON ERROR = 'SKIP');"),
    (f"{_JSON} EXPOSE PROGRESS AS p;", "SELECT * FROM mz_internal.mz_source_progress;"),
    (f"{_JSON} INCLUDE HEADER 'h' AS h;", f"{_JSON};"),
    (
        "CREATE REPLACEMENT MATERIALIZED VIEW r FOR totals AS SELECT id FROM orders;",
        "CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT id FROM orders;",
    ),
    (
        "CREATE MATERIALIZED VIEW m IN CLUSTER jobs REPLICA r AS SELECT id FROM orders;",
        "CREATE MATERIALIZED VIEW m IN CLUSTER jobs AS SELECT id FROM orders;",
    ),
    (
        "CREATE VIEW v AS SELECT id FROM orders WHERE customer SIMILAR TO 'a%';",
        "CREATE VIEW v AS SELECT id FROM orders WHERE customer LIKE 'a%';",
    ),
)


@pytest.mark.parametrize(("refused", "instead"), _INSTEAD, ids=[refused[-40:] for refused, _ in _INSTEAD])
def test_what_is_said_to_be_written_instead_of_what_is_not_supported_runs(
    tmp_path: Path, refused: str, instead: str
) -> None:
    broken.prepared(tmp_path)
    error = _outcome(tmp_path, refused)
    assert error is not None
    assert "not supported" in error.message
    said = re.findall(r"[A-Z]{3,}|->>?|\w+\.\w+", error.hint or "")
    assert any(word in instead for word in said) or "Leave" in str(error.hint), error.hint
    assert _outcome(tmp_path, instead) is None


def test_forms_that_are_shown_can_be_read() -> None:
    for form in FORMS.values():
        text = form.replace("; or ", "; ").replace("(column type, …)", "(id bigint)").replace("(column, …)", "(id)")
        assert parse(re.sub(r"(?<!')…", "1", text)), text
