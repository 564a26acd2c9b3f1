"""The blocks of the pages run in order and print what the pages show. See `docs.blocks` for the comments of pages.

One page: `pytest tests/docs -k "blocks and how-to/secrets"`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from _pytest.mark import ParameterSet

from docs.blocks import MARKS, Runner, commands, needs_spark, prints, runs
from docs.page_text import ROOT, Page, pages, parse, read
from docs.servers import SETUPS, servers
from sinkql.cli.main import cli
from support.kafka import Kafka, kafka

pytestmark = pytest.mark.long

_PAGES = [page for page in pages() if not page.is_error]
_ELSEWHERE = ("how-to/embed",)
"""Pages whose blocks other tests of each change run: `docs.test_embedding`."""
_WITH_COMMANDS = [*pages(), *(read(ROOT / name) for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"))]


def _cases() -> list[ParameterSet]:
    cases: list[ParameterSet] = []
    for page in _PAGES:
        if any(runs(block) for block in page.blocks):
            marks = [pytest.mark.slow] if needs_spark(page) else []
            marks += [pytest.mark.server] if set(page.setups) - {"demo", "files"} else []
            marks += [pytest.mark.soak] if page.name in _ELSEWHERE else []
            cases.append(pytest.param(page, id=page.name, marks=marks))
    return cases


@pytest.mark.parametrize("page", _cases())
def test_the_blocks_run(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    with servers(page, lambda: _started(request)) as found:
        Runner(page, found).run()


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with kafka() as started:
        yield started


def _started(request: pytest.FixtureRequest) -> Kafka:
    """Return the broker of all pages, which the first call starts."""
    found: Kafka = request.getfixturevalue("broker")
    return found


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in _PAGES])
def test_marks_are_known(page: Page) -> None:
    told = [f"<!-- {name} -->: known are {', '.join(SETUPS)}" for name in page.setups if name not in SETUPS]
    for block in page.blocks:
        words = [mark.partition(":")[0].strip() for mark in block.marks]
        told += [
            f"{page.place(block.line)}: <!-- {word} --> is no mark: {', '.join(sorted(MARKS))}"
            for word in words
            if re.fullmatch(r"[a-z]+", word) and word not in MARKS
        ]
        if "output" in words:
            told.append(f"{page.place(block.line)}: <!-- output --> has no block before it, or a second one")
    assert told == []


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in _WITH_COMMANDS if commands(page)])
def test_commands_are_known(page: Page) -> None:
    """Commands in shell blocks and in the text have names and options that the command line knows."""
    told = [f"{page.place(each.line)}: {each.text}: {why}" for each in commands(page) if (why := _unknown(each.text))]
    assert told == [], "\n".join(told)


def _unknown(command: str) -> str:
    """Return which word of a command the command line does not know; empty if it knows all."""
    try:
        words = [word for word in shlex.split(command)[1:] if not word.startswith("…")]
    except ValueError as error:
        return str(error)
    options: list[str] = []
    while words and words[0].startswith("-"):
        options += [words.pop(0), *([words.pop(0)] if words and "=" not in options[-1:] else [])]
    if not words:
        return ""
    with cli.make_context("sinkql", [*options, *words], resilient_parsing=True) as context:
        try:
            name, found, rest = cli.resolve_command(context, words)
        except click.UsageError as error:
            return error.message
    if found is None:
        return f"no command {words[0]}"
    if isinstance(found, click.Group) and rest and not rest[0].startswith("-"):
        if rest[0] not in found.commands:
            return f"no command {name} {rest[0]}"
        found, rest = found.commands[rest[0]], rest[1:]
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h"}
    unknown = [word for word in rest if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    return f"no option {', '.join(unknown)}" if unknown else ""


# --- the tests themselves -------------------------------------------------------------------------------------------

_HEAD = "---\nkeywords: []\n---\n# T\n\nA page.\n\n"
_OUTPUT = "\n<!-- output -->\n```text\n{}```\n"
_TABLE = "```sql\nCREATE TABLE t (id bigint PRIMARY KEY, name text);\n```\n"
_ROWS = "```sql\nINSERT INTO t VALUES (1, 'a'), (2, 'b');\nSELECT id, name FROM t ORDER BY id;\n```\n"


def _run(text: str) -> None:
    page = parse(_HEAD + text, "docs/x.md")
    with servers(page, _no_broker) as found:
        Runner(page, found).run()


def _no_broker() -> Kafka:
    raise AssertionError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


_RIGHT = [
    _TABLE + _OUTPUT.format("CREATE TABLE\n"),
    _TABLE + _ROWS + _OUTPUT.format("INSERT 0 2\n…\n 1 …a\n…\n(2 rows)\n").replace(" 1 …a", " … a"),
    _TABLE + _ROWS + "\nText between.\n" + _OUTPUT.format("…\n(2 rows)\n"),
    "<!-- error: SQ2202 -->\n```sql\nSELECT x FROM nothing;\n```\n" + _OUTPUT.format("error[SQ2202]: …\n…\n"),
    "<!-- setup: sinkql\nCREATE TABLE t (id bigint);\n-->\n\n```sql\nDROP TABLE t;\n```\n",
    "<!-- setup: files\n--- in/a.json\n{}\n-->\n\n```python\nassert open('in/a.json').read() == '{}\\n'\n```\n",
    "<!-- setup: env\nX=1\n-->\n\n```python\nimport os\nprint(os.environ['X'])\n```\n" + _OUTPUT.format("1\n"),
    "<!-- file: a/b.sql -->\n```sql\nno SQL\n```\n\n```python\nassert open('a/b.sql').read() == 'no SQL\\n'\n```\n",
    "```python\nx = 1\n```\n\n```python\nprint(x)\n```\n" + _OUTPUT.format("1\n"),
    "<!-- offline -->\n```sql\nCREATE CONNECTION pg TO POSTGRES (HOST = 'db', DATABASE = 'd', USER = 'u');\n"
    "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION = 'p') FOR ALL TABLES;\n```\n",
    _TABLE + "<!-- offline -->\n```sql\nCREATE VIEW v AS SELECT id FROM t;\n```\n",
    "<!-- run -->\n```sh\necho one > f\n```\n\n```sh\ncat f\n```\n" + _OUTPUT.format("one\n"),
    "<!-- run: background -->\n```sh\nsleep 1000\n```\n",
    "```sh\nsinkql --version\n```\n" + _OUTPUT.format("sinkql, version …\n"),
    "```sh\nrm -rf /tmp/not-run\nfalse\n```\n",
    "```text\nno block\n```\n",
]


@pytest.mark.parametrize("text", _RIGHT, ids=range(len(_RIGHT)))
def test_what_a_page_may_say(folder: Path, text: str) -> None:
    _run(text)


_WRONG = [
    (_TABLE + _OUTPUT.format("CREATE VIEW\n"), "docs/x.md:14: the block prints something else:\nCREATE TABLE"),
    (
        _TABLE + _TABLE.replace("CREATE TABLE t (id bigint PRIMARY KEY, name text)", "DROP TABLE s"),
        "docs/x.md:12: the block fails",
    ),
    ("<!-- error: SQ2002 -->\n```sql\nSELECT x FROM nothing;\n```\n", "fails with SQ2202, and not with SQ2002"),
    ("<!-- error: SQ2001 -->\n" + _TABLE, "the block runs, and does not fail with SQ2001"),
    ("```sql\nSELECT x FROM nothing;\n```\n", "see tests/docs/servers.py"),
    ("```python\nprint(x)\n```\n", "NameError"),
    ("```python\nprint(1)\n```\n" + _OUTPUT.format("2\n"), "the block prints something else"),
    ("<!-- offline -->\n```sql\nCREATE VIEW v AS SELECT id FROM nothing;\n```\n", "SQ2202"),
    ("<!-- offline -->\n```sql\nCREATE VIEW v AS AS;\n```\n", "SQ1"),
    ("<!-- run -->\n```sh\nfalse\n```\n", "the commands end with 1"),
    ("```sh\necho one\n```\n" + _OUTPUT.format("two\n"), "the block prints something else:\none"),
    ("<!-- on: postgres -->\n```sql\nSELECT 1;\n```\n", "write <!-- setup: postgres -->"),
    ("<!-- setup: oracle -->\n\n```python\n```\n", "there is no setup oracle"),
]


@pytest.mark.parametrize(("text", "told"), _WRONG, ids=range(len(_WRONG)))
def test_what_is_wrong_is_found(folder: Path, text: str, told: str) -> None:
    with pytest.raises(AssertionError) as raised:
        _run(text)
    assert told in str(raised.value)


def test_a_query_for_spark_is_only_planned_where_the_page_does_not_start_it(folder: Path) -> None:
    query = "```sql\nSELECT counter, count(*) OVER (PARTITION BY counter) FROM n;\n```\n"
    source = "```sql\nCREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 3);\n```\n"
    _run(source + query)
    with pytest.raises(AssertionError, match="write <!-- spark --> before the block"):
        _run(query.replace("FROM n", "FROM generate_series(1, 3) AS g (counter)") + _OUTPUT.format("1\n"))
    with pytest.raises(AssertionError, match="SQ2"):
        _run(source.replace(" n ", " m ") + query.replace("counter, ", "counters, ").replace("FROM n", "FROM m"))


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("a\nb\n", "a\nb", True),
        ("a  \nb\n", "a\nb  \n", True),
        ("a\n", "a\nb", False),
        ("a …\n", "a b c", True),
        ("a … c\n", "a b\nc", False),
        ("…\nb\n", "a\na\nb", True),
        ("a\n…\n", "a\nb\nc", True),
        ("a\n…\n", "a", True),
        ("…\n", "", True),
        ("a.b\n", "axb", False),
    ],
)
def test_dots_stand_for_what_varies(expected: str, printed: str, fits: bool) -> None:
    assert prints(printed, expected) is fits


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sinkql status", ""),
        ("sinkql --output json status", ""),
        ("sinkql plan --detailed-exitcode pipelines/", ""),
        ("sinkql exec --once pipeline.sql", ""),
        ("sinkql catalog backup file", ""),
        ("sinkql help create sink", ""),
        ("sinkql statuss", "no command statuss"),
        ("sinkql exec --onec pipeline.sql", "no option --onec"),
        ("sinkql catalog bakup", "no command catalog bakup"),
    ],
)
def test_unknown_commands_are_found(command: str, why: str) -> None:
    found = _unknown(command)
    assert found == why if not why else why in found


def test_commands_of_a_page() -> None:
    page = parse("`sinkql status` and `other`\n\n```sh\nX=1 sinkql up --once  # all\nls | sinkql fmt - > x\n```\n")
    assert [(each.text, each.line) for each in commands(page)] == [
        ("sinkql status", 1),
        ("sinkql up --once", 4),
        ("sinkql fmt -", 5),
    ]
