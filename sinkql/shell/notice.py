"""What the sinks' process tells → lines above the prompt; while a statement runs they wait for the next prompt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Notices:
    """Print lines through `show`, which may be called from any thread."""

    show: Callable[[str], None]
    _waiting: list[str] = field(default_factory=list)
    _asking: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, text: str) -> None:
        """Show a line now if the prompt is there, else before the next one."""
        with self._lock:
            if self._asking:
                self.show(text)
            else:
                self._waiting.append(text)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Show what waits, and then lines as they come."""
        with self._lock:
            for text in self._waiting:
                self.show(text)
            self._waiting.clear()
            self._asking = True
        try:
            yield
        finally:
            with self._lock:
                self._asking = False
