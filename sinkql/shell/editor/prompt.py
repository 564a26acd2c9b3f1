"""The terminal's line editor: several lines, history, highlighting, completion, Enter and Ctrl-J.

The history file has mode 0600, and no text that contains or may contain a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer
from prompt_toolkit.cursor_shapes import CursorShape
from prompt_toolkit.filters import Condition, has_completions, has_selection, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from sinkql.keywords import Keywords
from sinkql.script.redaction import holds_secret
from sinkql.script.split import finished, still_open
from sinkql.shell.editor.highlight import SqlLexer

_STYLE = Style.from_dict(
    {
        "prompt": "bold ansicyan",
        "continuation": "ansicyan",
        "bottom-toolbar": "noreverse ansibrightblack",
        "auto-suggestion": "ansibrightblack",
        "completion-menu": "bg:ansibrightblack ansiwhite",
        "completion-menu.completion": "bg:#303540 #d0d4dc",
        "completion-menu.completion.current": "bg:ansicyan ansiblack noreverse",
        "completion-menu.meta.completion": "bg:#252932 #8a919e",
        "completion-menu.meta.completion.current": "bg:#0e7490 ansiwhite noreverse",
        "sql.keyword": "bold ansiblue",
        "sql.option": "ansicyan",
        "sql.name": "",
        "sql.string": "ansigreen",
        "sql.number": "ansimagenta",
        "sql.comment": "italic ansibrightblack",
        "sql.command": "bold ansiyellow",
        "sql.error": "ansired",
    }
)


class Prompt:
    """Asks for input. `status` is the line below the prompt, `transaction` the state of the transaction, if any."""

    def __init__(
        self,
        history: Path,
        completer: Completer,
        words: Keywords,
        *,
        status: Callable[[], str],
        transaction: Callable[[], Literal["open", "failed"] | None],
    ) -> None:
        self._status = status
        self._transaction = transaction
        self._session: PromptSession[str] = PromptSession(
            history=SafeHistory(history, words),
            lexer=SqlLexer(words),
            completer=completer,
            complete_while_typing=True,
            complete_in_thread=True,
            auto_suggest=AutoSuggestFromHistory(),
            key_bindings=_bindings(),
            multiline=True,
            prompt_continuation=self._continuation,
            bottom_toolbar=self._toolbar,
            refresh_interval=0.5,
            style=_STYLE,
            cursor=CursorShape.BEAM,
            enable_open_in_editor=True,
            tempfile_suffix=".sql",
            search_ignore_case=True,
            reserve_space_for_menu=6,
        )

    def take_typed(self, text: str) -> None:
        """Insert keys that were pressed before the first prompt, as if they were pressed there."""
        keys: list[KeyPress] = []
        parser = Vt100Parser(keys.append)
        parser.feed_and_flush(text.replace("\n", "\r"))
        store_typeahead(self._session.input, keys)

    def ask(self, default: str = "") -> str:
        """Return the submitted text; raises EOFError on Ctrl-D and KeyboardInterrupt on Ctrl-C."""
        with patch_stdout(raw=True):
            return self._session.prompt(self._message, default=default)

    def _message(self) -> StyleAndTextTuples:
        marks = {None: "", "open": "*", "failed": "!"}
        return [("class:prompt", f"sinkql={marks[self._transaction()]}> ")]

    def _continuation(self, width: int, line_number: int, wrap_count: int) -> StyleAndTextTuples:
        if wrap_count:
            return [("", " " * width)]
        lines = self._session.default_buffer.text.split("\n")[:line_number]
        mark = still_open("\n".join(lines))
        return [("class:continuation", f"sinkql{mark}> ".rjust(width))]

    def _toolbar(self) -> StyleAndTextTuples | None:
        status = self._status()
        return [("class:bottom-toolbar", f" {status}")] if status else None


def _bindings() -> KeyBindings:
    bindings = KeyBindings()
    menu = has_completions & Condition(_chosen)

    @bindings.add("enter", filter=~is_searching & ~menu & ~has_selection)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        at_end = not buffer.document.text_after_cursor.strip()
        if finished(buffer.text) and (at_end or "\n" not in buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @bindings.add("enter", filter=menu)
    def _take(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.complete_state = None
        if buffer.document.text_before_cursor.endswith("= "):
            buffer.start_completion()  # the values of the chosen option

    @bindings.add("c-j")
    @bindings.add("escape", "enter")
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


def _chosen() -> bool:
    """Return whether a line of the completion menu is chosen."""
    state = get_app().current_buffer.complete_state
    return state is not None and state.current_completion is not None


_TELLING = re.compile(r"pass|pwd|secret|token|cred|key", re.IGNORECASE)


def may_be_kept(text: str, words: Keywords) -> bool:
    """Return whether a text may be stored: it contains no secret, and sets no variable with a name like a secret's."""
    if text.lstrip().startswith("\\"):
        return not (text.lstrip().startswith("\\set") and _TELLING.search(text))
    return not holds_secret(text, words)


class SafeHistory(FileHistory):
    """The history of submitted texts, in memory and in a file that only its owner can read."""

    def __init__(self, path: Path, words: Keywords) -> None:
        self._words = words
        descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)
        super().__init__(str(path))

    def append_string(self, string: str) -> None:
        if string.strip() and may_be_kept(string, self._words):
            super().append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        return (text for text in super().load_history_strings() if may_be_kept(text, self._words))
