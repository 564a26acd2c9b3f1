"""What is declared of an error code: family and exit code, cause, cure, and whether trying again may help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    """Say what kind of mistake a code is of, and which exit code the process ends with."""

    SYNTAX = ("the syntax of the SQL", 1)
    MEANING = ("what the SQL means", 1)
    RUN = ("a job while it runs", 3)
    ENVIRONMENT = ("the environment or a remote service", 4)
    CONFLICT = ("a conflict with another process", 5)

    def __init__(self, title: str, exit_code: int) -> None:
        self.title = title
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Code:
    """Declare an error code.

    `cause` says when the error comes and `cure` what to do about it, each in whole sentences for the page of error
    codes. A `retryable` error may be gone at the next try by itself, so a running sink tries again.
    One that is `of_rows` is gone once the rows that it comes of are taken back. One `of_loss` says that a source no
    longer has what comes next: ALTER SOURCE … SKIP goes on without that.
    """

    family: Family
    cause: str
    cure: str
    retryable: bool = False
    of_rows: bool = False
    of_loss: bool = False

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that ends with this error."""
        return self.family.exit_code


class Codes:
    """Keep the declared codes by their id, such as SQ2204."""

    def __init__(self, *declared: Mapping[str, Code]) -> None:
        self._by_id: dict[str, Code] = {}
        for each in declared:
            self.add(each)

    def add(self, declared: Mapping[str, Code]) -> None:
        """Add codes; raises ValueError for one that is declared already."""
        twice = sorted(self._by_id.keys() & declared.keys())
        if twice:
            raise ValueError(f"error codes are declared twice: {', '.join(twice)}")
        self._by_id.update(declared)

    def __getitem__(self, id_: str) -> Code:
        """Return a code's declaration; raises LookupError for a code that nothing declares."""
        declared = self._by_id.get(id_)
        if declared is None:
            raise LookupError(f"error code {id_} is not declared in sinkql.errors")
        return declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)
