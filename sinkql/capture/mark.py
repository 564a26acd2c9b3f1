"""What sinks and a capture tell each other, in small files of the source's folder.

* `at/<sink id>.json`: how far the sink's table is; written after its commits.
* `want/<sink id>.json`: the sink waits for a generation of its table.
* `ask/<id>.json`: somebody asks for the server's end as of now; `answer/<id>.json` has it.
* `word.json`: what the capture is doing, and the error that it cannot get over.
* `damaged.json`: a reader found a data file damaged.

None of them is waited for by fsync: one that is lost makes the capture keep more, or is written again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sinkql import durable
from sinkql.errors import SinkqlError, from_data
from sinkql.extension.capture import Position

_LOOK_SECONDS = 0.02
_VALID_SECONDS = 5.0


class At(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a sink is, as `sinkql.capture.reader.Place` has it."""

    table: str
    to: Position
    log: str = ""
    entry: int = -1
    generation: int | None = None
    last: list[Any] | None = None
    chunks: int = 0
    done: bool = True
    high: Position = ""
    run: str = ""


class Want(msgspec.Struct, frozen=True):
    """A sink waits for a generation of a table."""

    table: str


class Ask(msgspec.Struct, frozen=True):
    """Somebody asks for the server's end, of a capture that captures a table."""

    table: str


class Answer(msgspec.Struct, frozen=True):
    """The server's end `to`, when the capture had gone to entry `entry` of log `log`, up to `at`."""

    to: Position
    log: str
    entry: int
    at: Position


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a capture is doing: `error` is what it cannot get over, `joinable` the entries where generations begin that
    a sink may still join, by table.
    """

    epoch: int
    at: float
    log: str = ""
    entry: int = -1
    joinable: dict[str, int] = {}
    error: dict[str, Any] | None = None

    def failure(self) -> SinkqlError | None:
        """Return the error, as long as the capture repeats it: one that has ended says nothing any more."""
        if self.error is None or not -_VALID_SECONDS < time.time() - self.at < _VALID_SECONDS:
            return None
        return from_data(self.error)


class Damaged(msgspec.Struct, frozen=True):
    """A data file of a log is damaged."""

    log: str
    file: str


def put(folder: Path, what: str, name: str, mark: msgspec.Struct) -> None:
    """Write a file of the folder `what`, which readers see whole."""
    durable.write(folder / what / f"{name}.json", msgspec.json.encode(mark), sync=False)


def take(path: Path, type_: type[Any]) -> Any | None:
    """Return what a file says, None where it is not there or not whole."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except (OSError, msgspec.MsgspecError):
        return None


def all_of(folder: Path, what: str, type_: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and contents of the files of the folder `what`."""
    try:
        paths = sorted((folder / what).glob("[!.]*.json"))
    except OSError:
        return
    for path in paths:
        found = take(path, type_)
        if found is not None:
            yield path.stem, found


def word(folder: Path) -> Word | None:
    """Return what the capture is doing, as far as it said."""
    found: Word | None = take(folder / "word.json", Word)
    return found


def tell(folder: Path, said: Word) -> None:
    """Say what the capture is doing."""
    durable.write(folder / "word.json", msgspec.json.encode(said), sync=False)


def ask(folder: Path, table: str, *, patience: float) -> Answer | None:
    """Return the server's end as a capture tells it; None where none does in so many seconds."""
    name = secrets.token_hex(8)
    put(folder, "ask", name, Ask(table))
    path = folder / "answer" / f"{name}.json"
    until = time.monotonic() + patience
    try:
        while time.monotonic() < until:
            found: Answer | None = take(path, Answer)
            if found is not None:
                return found
            said = word(folder)
            failure = said.failure() if said is not None else None
            if failure is not None and not failure.retryable:
                raise failure
            time.sleep(_LOOK_SECONDS)
        return None
    finally:
        path.unlink(missing_ok=True)
        (folder / "ask" / f"{name}.json").unlink(missing_ok=True)
