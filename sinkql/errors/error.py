"""Errors and notices: a code, a message, a position in a script, detail and hint.

An error converts to JSON-able data (`as_data`), and to a line of text that another process converts back (`line_of`).
Such a line carries a random key, since other lines may contain data of users. The module also finds the word that a
user probably meant (`nearest`), and converts errors of full or read-only disks (`as_disk_full`).
"""

from __future__ import annotations

import base64
import errno
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from sinkql.errors.code import Code, Codes, Family
from sinkql.errors.codes import CODES
from sinkql.errors.redact import without_secrets
from sinkql.errors.span import Span, excerpt, line_and_column
from sinkql.errors.terminal_text import for_terminal

error_codes = Codes(*CODES)
"""All codes. A connector of another package adds its codes with `error_codes.add` when it is imported."""


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
        self.declared: Code = error_codes[code]
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
        """Attach the script that the span refers to, unless the error has one."""
        if self.text is None:
            self.path, self.text = path, text
        return self

    def __str__(self) -> str:
        return self.shown()

    def shown(self, *, level: str = "error", width: int = 160) -> str:
        """Return `path:line:col: error[SQ1203]: message`, the source line, a caret, detail and hint.

        A longer source line is cut to `width` characters around the caret.
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
        return for_terminal("\n".join(lines))

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
    vars(error).update(state, declared=error_codes[state["code"]])
    return error


class UnexpectedWordError(SinkqlError):
    """A word or sign in a position where the statement does not allow it."""


class UnexpectedCharacterError(SinkqlError):
    """A character outside of strings and comments that SQL does not have."""


class UnclosedError(SinkqlError):
    """A string, a comment or a quoted name without an end."""

    def __init__(self, code: str, message: str, span: Span, *, mark: Literal["'", '"', "$", "*"], hint: str) -> None:
        super().__init__(code, message, span, hint=hint)
        self.mark = mark
        """Its first character: `'` or `$` for a string, `"` for a name, `*` for a comment."""


class MissingError(SinkqlError):
    """A name that nothing has. If scripts are planned together, a later script may create it."""

    def __init__(
        self, code: str, message: str, span: Span | None = None, *, name: str, hint: str | None = None
    ) -> None:
        super().__init__(code, message, span, hint=hint)
        self.name = name
        """The name as written, without its schema."""


class NoFormError(SinkqlError):
    """A part of a query that this way of running it does not support; another way may."""


class UnknownNameError(SinkqlError):
    """A function or type that does not exist."""


class MissingColumnError(SinkqlError):
    """A column that no relation of a query has."""


class InvalidFileError(SinkqlError):
    """A file that does not have the format of its source."""


class TakenNameError(SinkqlError):
    """A name that exists already."""


class UnfitNameError(SinkqlError):
    """A name that is not allowed in this position."""


class UnaskedError(SinkqlError):
    """Facts that only another system has, which was not asked."""


class EndlessError(SinkqlError):
    """A source without an end, asked for its end."""


class GoneError(SinkqlError):
    """A part of a source that was removed before it was read."""


class TableError(SinkqlError):
    """A table of a source that cannot be read, unlike its other tables."""


class DroppedTableError(SinkqlError):
    """A target table that was dropped, even if a new table has its name."""


class UnfitTableError(SinkqlError):
    """A table that does not fit a sink, which can write to another table."""


class SharedKeyError(SinkqlError):
    """Two rows of a table with one key."""


class LostStateError(SinkqlError):
    """Missing or damaged state of a sink."""


class LostIndexError(SinkqlError):
    """A missing or damaged index of a table, which the table's rows can rebuild."""


class DamagedFileError(SinkqlError):
    """A damaged file of a capture log; `damaged` is the source's folder, the log and the file."""

    damaged: tuple[str, str, str] = ("", "", "")


class LostChangesError(SinkqlError):
    """A lost capture log that held the only copy of changes that sinks need.

    Positions after `pushed`, if it is set, name other changes now.
    """

    pushed: str = ""


class LostPositionError(SinkqlError):
    """A lost file that is needed to read the offsets of a source."""


class UnforeseenError(SinkqlError):
    """An unexpected error, which has no code of its own."""


class LateError(SinkqlError):
    """A missing answer, for example on a loaded machine; a caller that can wait should wait longer."""


class NoCatalogError(SinkqlError):
    """A catalog that does not exist."""


class LeaseHeldError(SinkqlError):
    """Another process runs the sink."""


class LeaseLostError(SinkqlError):
    """Another process took over the sink."""


class CrowdedError(SinkqlError):
    """Other writers changed a table so often that a commit did not succeed."""

    def __init__(self, code: str, message: str, *, detail: str, hint: str, over: bool) -> None:
        super().__init__(code, message, detail=detail, hint=hint)
        self.over = over
        """Whether no attempt can still succeed, since the table changed after each of them."""


class FencedError(SinkqlError):
    """Another run claimed the table."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice about a statement that succeeded."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        """Check that the code is declared, and remove secrets from URLs."""
        error_codes[self.code]
        object.__setattr__(self, "message", without_secrets(self.message))


def too_deep(span: Span | None) -> SinkqlError:
    """Return the error for a statement that runs out of stack."""
    return SinkqlError("SQ2209", "the query is nested too deeply", span, hint="Split it into views.")


def as_data(error: SinkqlError) -> dict[str, Any]:
    """Return the error as JSON-able data with the same content as its text."""
    data: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.path:
        data["path"] = error.path
    if error.span is not None and error.text is not None:
        line, column = line_and_column(error.text, error.span.start)
        data |= {"line": line, "column": column, "start": error.span.start, "end": error.span.end}
    if error.detail:
        data["detail"] = error.detail
    if error.hint:
        data["hint"] = error.hint
    data["retryable"] = error.retryable
    return data


def from_data(data: Mapping[str, Any]) -> SinkqlError:
    """Return the error from the data of `as_data`, without the script."""
    return SinkqlError(
        data["code"], data["message"], detail=data.get("detail"), hint=data.get("hint"), path=data.get("path")
    )


def line_of(error: SinkqlError, key: str) -> str:
    """Return a line of text that holds the whole error and its class; `key` is letters and digits."""
    fields = {name: value for name, value in vars(error).items() if name != "declared"}
    if error.span is not None:
        fields["span"] = [error.span.start, error.span.end]
    data = json.dumps({"kind": type(error).__name__, "fields": fields}).encode()
    return f"sinkql-error:{key}:{base64.b64encode(data).decode()}"


def error_in(text: str, key: str) -> SinkqlError | None:
    """Return the error of the last line with this key in a text; None if there is no such line."""
    last = None
    for match in re.finditer(rf"sinkql-error:{key}:([A-Za-z0-9+/]+=*)", text):
        last = _read(match[1]) or last
    return last


def _read(line: str) -> SinkqlError | None:
    try:
        data = json.loads(base64.b64decode(line, validate=True))
        kind = {subclass.__name__: subclass for subclass in _subclasses(SinkqlError)}[data["kind"]]
        fields = data["fields"]
        if fields["span"] is not None:
            fields["span"] = Span(*fields["span"])
        error = kind.__new__(kind, fields["message"])
        vars(error).update(fields, declared=error_codes[fields["code"]])
    except (ValueError, LookupError, TypeError):
        return None
    return error


def _subclasses(kind: type[SinkqlError]) -> Iterator[type[SinkqlError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _subclasses(subclass)


def nearest(word: str, choices: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the choice that `word` probably misspells; None if none has a similarity of at least `cutoff`."""
    folded = {choice.casefold(): choice for choice in choices}
    matches = get_close_matches(word.casefold(), list(folded), n=1, cutoff=cutoff)
    return folded[matches[0]] if matches else None


def one_of(words: Sequence[str]) -> str:
    """Join words for a sentence: `a`, `a or b`, `a, b or c`; a last `…` follows a comma."""
    *most, last = words
    return f"{', '.join(most)}{', ' if last == '…' else ' or '}{last}" if most else last


def in_other_case(missing: Iterable[str], present: Iterable[str]) -> str:
    """Return the end of a hint about a present name that differs from a missing one in case; empty if none does."""
    folded = {name.casefold(): name for name in present if name != name.lower()}
    match = next((folded[name.casefold()] for name in missing if name.casefold() in folded), None)
    return f'; a name with capitals is declared in quotes, as "{match}"' if match is not None else ""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "File too large", "database or disk is full")
"""Texts of errors without a number that mean the same."""


def as_disk_full(error: BaseException) -> SinkqlError | None:
    """Convert an error of a full disk or a folder without permission; None for other errors."""
    if (full := disk_full(error)) is not None:
        return full
    if not isinstance(error, OSError) or error.errno not in _CLOSED:
        return None
    return SinkqlError(
        "SQ4307",
        f"{_file(error)} cannot be read or written",
        detail=_shown(error),
        hint="Give this user permission to read and write there. Nothing is lost; a running sink retries.",
    )


def disk_full(error: BaseException) -> SinkqlError | None:
    """Convert an error of a full disk or quota; None for other errors."""
    number = error.errno if isinstance(error, OSError) else None
    if number not in _FULL and not any(text in str(error) for text in _FULL_TEXTS):
        return None
    return SinkqlError(
        "SQ4306",
        f"no space left on device for {_file(error)}",
        detail=_shown(error),
        hint="Free space on that disk. Nothing is lost; a running sink retries.",
    )


def _file(error: BaseException) -> str:
    name = error.filename if isinstance(error, OSError) else None
    return f'file "{name}"' if name is not None else "a file"


def _shown(error: BaseException) -> str:
    """Return the text of the error; of a long text, such as a stack trace, the line with the reason."""
    lines = [line.strip() for line in str(error).splitlines() if any(text in line for text in _FULL_TEXTS)]
    return (lines[-1] if lines else str(error))[:500]


def temporary_folder_error() -> SinkqlError | None:
    """Return the error of a machine without a writable temporary folder; None if there is one."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        return SinkqlError(
            "SQ4070",
            "no folder for temporary files can be written",
            detail=error.strerror,
            hint="Set TMPDIR to a folder that can be written.",
        )
    return None
