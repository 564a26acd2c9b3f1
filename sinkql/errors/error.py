"""Errors and notices with their code and their place in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sinkql.errors.code import Code, Codes, Family
from sinkql.errors.declared import CODES
from sinkql.errors.place import Span, excerpt, line_and_column
from sinkql.errors.printable import printable
from sinkql.errors.url import without_secrets

codes = Codes(*CODES)
"""Every code there is. A connector of another package adds its own with `codes.add`, when it is imported."""


class SinkqlError(Exception):
    """An error with a code, a message, its place in the text, a detail and a hint. `str(error)` shows all of them.

    The code must be declared (LookupError otherwise), and its declaration decides the exit code. Control flow uses
    subclasses, `family` and `retryable`, never the text of the code. Secrets in URLs are removed from the texts.
    `option` names the option that causes the error, for callers that know the statement's text.
    """

    def __init__(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
        path: str | None = None,
        text: str | None = None,
        option: str | None = None,
    ) -> None:
        self.code = code
        self.declared: Code = codes[code]
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.span = span
        self.detail = without_secrets(detail) if detail else detail
        self.hint = without_secrets(hint) if hint else hint
        self.path = path
        self.text = text
        self.option = option

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), {**vars(self), "declared": None})

    def within(self, *, path: str | None, text: str) -> SinkqlError:
        """Attach the script that the span points into, unless the error already names one."""
        if self.text is None:
            self.path, self.text = path, text
        return self

    def __str__(self) -> str:
        return self.shown()

    def shown(self, *, level: str = "error", width: int = 160) -> str:
        """Return `path:line:col: error[SQ1203]: message`, the source line, a caret, detail and hint.

        Of a longer source line, `width` characters around the caret are shown.
        """
        head = f"{level}[{self.code}]: {self.message}"
        lines = [f"{self.path}: {head}" if self.path else head]
        if self.span is not None and self.text is not None:
            line, column = line_and_column(self.text, self.span.start)
            prefix = f"{self.path}:{line}:{column}: " if self.path else ""
            lines = [f"{prefix}{head}", *excerpt(self.text, self.span, width)]
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return printable("\n".join(lines))

    @property
    def family(self) -> Family:
        """Return the family of the code."""
        return self.declared.family

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process that ends with this error."""
        return self.declared.exit_code

    @property
    def retryable(self) -> bool:
        """Return whether a retry may succeed without a user's action."""
        return self.declared.retryable

    @property
    def of_rows(self) -> bool:
        """Return whether rows cause the error, so that it ends when they are removed."""
        return self.declared.of_rows

    @property
    def of_loss(self) -> bool:
        """Return whether a source lost its next changes, so that ALTER SOURCE … SKIP is needed."""
        return self.declared.of_loss


def _restore(kind: type[SinkqlError], state: dict[str, Any]) -> SinkqlError:
    error = kind.__new__(kind, state["message"])
    vars(error).update(state, declared=codes[state["code"]])
    return error


class UnexpectedWordError(SinkqlError):
    """Say that a word or sign stands where the statement cannot have it."""


class UnexpectedCharacterError(SinkqlError):
    """Say that a character stands outside of strings and comments that no SQL has there."""


class UnclosedError(SinkqlError):
    """Say that a string, a comment or a quoted name never ends."""

    def __init__(self, code: str, message: str, span: Span, *, mark: Literal["'", '"', "$", "*"], hint: str) -> None:
        super().__init__(code, message, span, hint=hint)
        self.mark = mark
        """What it began with: `'` or `$` a string, `"` a name, `*` a comment."""


class MissingError(SinkqlError):
    """Say that nothing has this name; what it names may still come where scripts are planned as a whole."""

    def __init__(
        self, code: str, message: str, span: Span | None = None, *, name: str, hint: str | None = None
    ) -> None:
        super().__init__(code, message, span, hint=hint)
        self.name = name
        """The name as it was written, without its schema."""


class NoFormError(SinkqlError):
    """Say that there is no form of a part of a query here; another way to run the query may have one."""


class UnknownNameError(SinkqlError):
    """Say that no function or type has this name."""


class MissingColumnError(SinkqlError):
    """Say that no relation of a query has a column of this name."""


class InvalidFileError(SinkqlError):
    """Say that a file is not of the format that its source says."""


class TakenNameError(SinkqlError):
    """Say that something has a name already."""


class UnfitNameError(SinkqlError):
    """Say that a name cannot be used where it would be."""


class UnaskedError(SinkqlError):
    """Say that only another system can tell what is missing, and that it was not asked."""


class EndlessError(SinkqlError):
    """Say that a source never ends, where its end was asked for."""


class GoneError(SinkqlError):
    """Say that a part of a source was removed before it was read."""


class TableError(SinkqlError):
    """Say that one table of a source cannot be read; others can."""


class DroppedTableError(SinkqlError):
    """Say that the table of a sink was dropped, also where another one has its name now."""


class UnfitTableError(SinkqlError):
    """Say that a table cannot be a sink's as it is, and that the sink can write to another one."""


class SharedKeyError(SinkqlError):
    """Say that two rows of a table have one key."""


class LostStateError(SinkqlError):
    """Say that a sink's state is missing or damaged."""


class LostIndexError(SinkqlError):
    """Say that what a writer keeps of its table, and can make again from it, is missing or damaged."""


class DamagedFileError(SinkqlError):
    """Say that a file of a source's log is damaged: `damaged` names the source's folder, the log, the file."""

    damaged: tuple[str, str, str] = ("", "", "")


class LostChangesError(SinkqlError):
    """Say that the log of a source is lost, which alone had what its sinks need.

    Positions after `pushed`, where it is known, are used again by what came since.
    """

    pushed: str = ""


class LostPositionError(SinkqlError):
    """Say that a file is lost without which a source's offsets cannot be read."""


class UnforeseenError(SinkqlError):
    """Say that something failed for which there is no code."""


class LateError(SinkqlError):
    """Say that something did not answer in time, as on a loaded machine: who can wait waits longer."""


class NoCatalogError(SinkqlError):
    """Say that there is no catalog where there should be one."""


class LeaseHeldError(SinkqlError):
    """Say that another process runs the sink."""


class LeaseLostError(SinkqlError):
    """Say that another process has taken the sink over."""


class CrowdedError(SinkqlError):
    """Say that others changed a table so often that a commit did not get through."""

    def __init__(self, code: str, message: str, *, detail: str, hint: str, over: bool) -> None:
        super().__init__(code, message, detail=detail, hint=hint)
        self.over = over
        """Whether none of its attempts can arrive any more: the table has moved on from what each was made for."""


class FencedError(SinkqlError):
    """Say that another run has claimed the table."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What a user should know about a statement that succeeded."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        """Look the code up, which raises LookupError if nothing declares it; take secrets out of URLs."""
        codes[self.code]
        object.__setattr__(self, "message", without_secrets(self.message))


def too_deep(span: Span | None) -> SinkqlError:
    """Return the error for a statement that runs out of stack."""
    return SinkqlError("SQ2209", "the query is nested too deeply", span, hint="Split it into views.")
