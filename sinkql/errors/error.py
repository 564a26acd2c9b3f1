"""Errors and notices with their code and their place in the text.

An error → data for a program, and back; or a line of text, from which another process makes it again.

A text may have lines that are anybody's, as those of a row which an error shows: a line has a key that they cannot
know, and is data, and never code.

A word that nothing has and the words there are → the one that was likely meant, or all of them for a hint.

A file system's refusal to take what is written → an error that says so, and that waiting costs nothing.

Whether there is a folder for temporary files; where there is none, what to set.
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
    """Return the error that `as_data` took apart, without the text it points into."""
    return SinkqlError(
        data["code"], data["message"], detail=data.get("detail"), hint=data.get("hint"), path=data.get("path")
    )


def line_of(error: SinkqlError, key: str) -> str:
    """Return a line that says all of an error, its kind too; `key` is letters and digits."""
    said = {name: value for name, value in vars(error).items() if name != "declared"}
    if error.span is not None:
        said["span"] = [error.span.start, error.span.end]
    data = json.dumps({"kind": type(error).__name__, "said": said}).encode()
    return f"sinkql-error:{key}:{base64.b64encode(data).decode()}"


def error_in(text: str, key: str) -> SinkqlError | None:
    """Return the error of the last line with this key that a text has anywhere; None where there is none."""
    found = None
    for match in re.finditer(rf"sinkql-error:{key}:([A-Za-z0-9+/]+=*)", text):
        found = _read(match[1]) or found
    return found


def _read(line: str) -> SinkqlError | None:
    try:
        data = json.loads(base64.b64decode(line, validate=True))
        kind = {each.__name__: each for each in _below(SinkqlError)}[data["kind"]]
        said = data["said"]
        if said["span"] is not None:
            said["span"] = Span(*said["span"])
        error = kind.__new__(kind, said["message"])
        vars(error).update(said, declared=error_codes[said["code"]])
    except (ValueError, LookupError, TypeError):
        return None
    return error


def _below(kind: type[SinkqlError]) -> Iterator[type[SinkqlError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)


def nearest(word: str, choices: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the choice that `word` most likely misspells, if any is near: `cutoff` of its letters at least."""
    folded = {choice.casefold(): choice for choice in choices}
    found = get_close_matches(word.casefold(), list(folded), n=1, cutoff=cutoff)
    return folded[found[0]] if found else None


def one_of(words: Sequence[str]) -> str:
    """Return words as a sentence offers them: `a`, `a or b`, `a, b or c`; a last `…` takes no "or" before it."""
    *most, last = words
    return f"{', '.join(most)}{', ' if last == '…' else ' or '}{last}" if most else last


def in_other_case(missing: Iterable[str], there: Iterable[str]) -> str:
    """Return the end of a sentence that says how to name what is there in other letters; empty where none is."""
    folded = {each.casefold(): each for each in there if each != each.lower()}
    found = next((folded[each.casefold()] for each in missing if each.casefold() in folded), None)
    return f'; a name with capitals is declared in quotes, as "{found}"' if found is not None else ""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_SAID = ("No space left on device", "Disk quota exceeded", "File too large", "database or disk is full")
"""How programs say it that give no number."""


def as_disk_full(error: BaseException) -> SinkqlError | None:
    """Return the error to show where a disk is full, or a folder not to be written; None for any other error."""
    if (full := disk_full(error)) is not None:
        return full
    if not isinstance(error, OSError) or error.errno not in _CLOSED:
        return None
    return SinkqlError(
        "SQ4307",
        f"{_file(error)} cannot be read or written",
        detail=_shown(error),
        hint="Give this user the right to read and write there. Nothing is lost, and a running sink goes on by itself.",
    )


def disk_full(error: BaseException) -> SinkqlError | None:
    """Return the error to show where a disk or a quota is full; None for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    if number not in _FULL and not any(said in str(error) for said in _SAID):
        return None
    return SinkqlError(
        "SQ4306",
        f"no room is left for {_file(error)}",
        detail=_shown(error),
        hint="Make room on that disk. Nothing is lost, and a running sink goes on by itself.",
    )


def _file(error: BaseException) -> str:
    name = error.filename if isinstance(error, OSError) else None
    return f'file "{name}"' if name is not None else "a file"


def _shown(error: BaseException) -> str:
    """Return what the error says, or the line that says it of a long text, such as a stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if any(said in line for said in _SAID)]
    return (lines[-1] if lines else str(error))[:500]


def temporary_folder_error() -> SinkqlError | None:
    """Return the error of a machine on which no temporary file can be written, as with a read-only root."""
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
