"""What was typed ↔ the history file: 0600, and without what holds or may hold a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import FileHistory

from sinkql.keywords import Keywords
from sinkql.script.redaction import holds_secret

_TELLING = re.compile(r"pass|pwd|secret|token|cred|key", re.IGNORECASE)


def may_be_kept(text: str, words: Keywords) -> bool:
    """Say whether a text may be written down: it holds no secret, and sets no variable that sounds like one."""
    if text.lstrip().startswith("\\"):
        return not (text.lstrip().startswith("\\set") and _TELLING.search(text))
    return not holds_secret(text, words)


class SafeHistory(FileHistory):
    """Keep what was typed, in memory and in a file that only its owner reads."""

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
