"""The declaration of an error code: family and exit code, cause, cure, and whether a retry may help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    """The kind of an error, with the exit code of a process that ends with it."""

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
    """An error code.

    `cause` says when the error occurs, and `cure` what to do; both are full sentences for the error's page. A running
    sink retries after a `retryable` error. An error `of_rows` disappears when the rows that cause it are retracted. An
    error `of_loss` means that a source no longer has the next changes; ALTER SOURCE … SKIP accepts the loss.
    `symptoms` are words by which users search for the error.
    """

    family: Family
    cause: str
    cure: str
    retryable: bool = False
    of_rows: bool = False
    of_loss: bool = False
    symptoms: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that ends with this error."""
        return self.family.exit_code


class Codes:
    """The declared codes by id, such as SQ2204."""

    def __init__(self, *declared: Mapping[str, Code]) -> None:
        self._by_id: dict[str, Code] = {}
        for codes in declared:
            self.add(codes)

    def add(self, declared: Mapping[str, Code]) -> None:
        """Add codes; raise ValueError if a code is declared already."""
        twice = sorted(self._by_id.keys() & declared.keys())
        if twice:
            raise ValueError(f"error codes are declared twice: {', '.join(twice)}")
        self._by_id.update(declared)

    def __getitem__(self, id_: str) -> Code:
        """Return the declaration of a code; raise LookupError if there is none."""
        declared = self._by_id.get(id_)
        if declared is None:
            raise LookupError(f"error code {id_} is not declared in sinkql.errors")
        return declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)
