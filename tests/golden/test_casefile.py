"""A golden file is read and written without loss, including blank lines in outputs."""

from __future__ import annotations

import pytest

from golden import casefile
from golden.casefile import Case

FILE = """\
# About the file.

# About the case.
parse
SELECT 1

;
----
Select

print redacted
x
----
----
a

b
----
----

# The end.
"""


def test_cases_are_read() -> None:
    cases, below = casefile.read(FILE)
    assert (
        Case("# About the file.\n\n# About the case.\n", "parse", "SELECT 1\n\n;", "Select", 4),
        Case("\n", "print redacted", "x", "a\n\nb", 11),
    ) == cases
    assert below == "\n# The end.\n"


def test_written_cases_are_the_file() -> None:
    assert casefile.write(*casefile.read(FILE)) == FILE


def test_case_without_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1: the case has no ----"):
        casefile.read("parse\nSELECT 1\n")


def test_output_without_closing_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no closing marks"):
        casefile.read("parse\nx\n----\n----\na\n")
