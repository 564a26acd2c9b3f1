"""Measure how long completion takes: in bash for the command line, and in the interactive shell for a statement.

    python -m bench.shell [--runs 10]

Prints the wall and CPU milliseconds of a process that completes the name of a sink, and of an empty Python. Then prints
the milliseconds of one key press in the interactive shell, with a catalog of 300 items.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from bench.common import median
from bench.compile import pipeline
from bench.meter import ENVIRONMENT
from sinkql.session import Session
from sinkql.shell.command.command_list import BY_NAME
from sinkql.shell.editor.completer import SqlCompleter
from sinkql.shell.editor.highlight import SqlLexer
from sinkql.shell.setting import Settings

_TYPED = (
    "CREATE SINK s FROM ",
    "CREATE SINK s FROM v1 INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') KEY (",
    "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) FROM s1 WHERE ",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        with Session(Path(folder)) as session:
            session.execute(pipeline(sources=99, views=100).replace("'lake'", f"'{folder}/lake'", 1))
            _keys(session, runs)
        ask = {"_SINKQL_COMPLETE": "bash_complete", "COMP_WORDS": "sinkql stop k1", "COMP_CWORD": "2"}
        for what, command in (
            ("empty Python", [sys.executable, "-c", "pass"]),
            ("sinkql stop k1<TAB>", [sys.executable, "-m", "sinkql"]),
        ):
            wall, cpu = zip(*(_process(command, folder, ask) for _ in range(runs)), strict=True)
            print(f"{what + ':':<50} {1000 * median(list(wall)):6.0f} ms, {1000 * median(list(cpu)):.0f} ms of CPU")


def _keys(session: Session, runs: int) -> None:
    completer, lexer = SqlCompleter(session, Settings(), BY_NAME), SqlLexer(session.catalog.registry.keywords)
    for text in _TYPED:
        times = []
        for number in range(runs + 1):
            document = Document(text, len(text))
            began = time.perf_counter()
            found = len(list(completer.get_completions(document, CompleteEvent(completion_requested=True))))
            lexer.lex_document(Document(f"{text} -- {number}"))
            times.append(time.perf_counter() - began)
        print(f"key, {found:3} completions of …{text[-24:]:<25} {1000 * median(times[1:]):6.1f} ms")


def _process(command: list[str], folder: str, environment: dict[str, str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT | {"PYTHONPATH": str(Path.cwd())} | environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu


if __name__ == "__main__":
    main()
