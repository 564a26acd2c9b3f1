"""`pytest --cover`: which lines of sinkql the tests ran, by SlipCover, in every worker of pytest-xdist.

SlipCover writes its probes into the byte code and takes them out once they were met, where a tracer is called for each
line, which doubles the time of most tests.
"""

from __future__ import annotations

import copyreg
import io
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from slipcover import FileMatcher, ImportManager, Slipcover, merge_coverage
from slipcover.slipcover import print_coverage

LEAST = 92
"""Percent of the lines."""
_PACKAGE = Path(__file__).parents[2] / "sinkql"
_NOT_COUNTED = [r"class .*\(Protocol\):", "@overload"]
_WIDTH = 60
_NEVER = 1 << 30


class Measured:
    """A run that counts lines: those of this process, or, where there are workers, those that they hand over."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.found: dict[str, Any] | None = None
        self.slipcover: Slipcover | None = None
        if "PYTEST_XDIST_WORKER" in os.environ or "-n" not in config.invocation_params.args:
            self.slipcover = Slipcover(exclude_also=_NOT_COUNTED)
            _let_spark_pickle(self.slipcover)
            ImportManager(self.slipcover, FileMatcher(sources=[_PACKAGE])).__enter__()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        handed = getattr(node, "workeroutput", {}).get("coverage")
        if handed is not None:
            self._add(json.loads(handed))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        output = getattr(self.config, "workeroutput", None)
        if self.slipcover is not None:
            self._add(self.slipcover.get_coverage())
        if output is not None:
            output["coverage"] = json.dumps(self.found)
        elif self.found is not None:
            unseen = Slipcover(source=[str(_PACKAGE)], omit=list(self.found["files"]), exclude_also=_NOT_COUNTED)
            self._add(unseen.get_coverage())
            if self.found["summary"]["percent_covered"] < LEAST:
                session.testsfailed += 1
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found is None:
            return
        table = io.StringIO()
        print_coverage(self.found, outfile=table, missing_width=_WIDTH, skip_covered=True)
        terminalreporter.section("coverage")
        terminalreporter.write_line(table.getvalue())
        percent = self.found["summary"]["percent_covered"]
        terminalreporter.write_line(f"{percent:.1f} % of the lines ran; at least {LEAST} % have to")

    def _add(self, found: dict[str, Any]) -> None:
        if self.found is None:
            self.found = found
        else:
            merge_coverage(self.found, found)


def _let_spark_pickle(slipcover: Slipcover) -> None:
    """Let functions go to Spark's workers: before Python 3.12, probes are among a function's constants."""
    if sys.version_info >= (3, 12):
        return
    from slipcover import probe

    kind = type(probe.new(slipcover, "", 0, _NEVER))
    copyreg.pickle(kind, lambda _: (probe.new, (SimpleNamespace(newly_seen=defaultdict(set)), "", 0, _NEVER)))
