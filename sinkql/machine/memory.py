"""What a process remembers of logs and tables that other hosts change, too: caches that all its sinks share.

`use` replaces the memory of the process. A simulation has one for each of its hosts: a host does not know what another
host has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Remembered(Generic[P, T]):
    """A function whose last results the memory in use keeps, by their arguments."""

    def __init__(self, function: Callable[P, T], most: int) -> None:
        self.function = function
        self.most = most

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = _in_use[-1].cache(self)(*args, **kwargs)
        return result

    def cache_clear(self) -> None:
        """Forget all results."""
        _in_use[-1].cache(self).cache_clear()


class Memory:
    """The caches of one host. Subclasses may choose between those of several hosts."""

    def __init__(self) -> None:
        self._caches: dict[Remembered[Any, Any], Any] = {}

    def cache(self, remembered: Remembered[Any, Any]) -> Any:  # `functools` does not name the type
        """Return the cache of a function."""
        cache = self._caches.get(remembered)
        if cache is None:  # threads may do so at once
            cache = self._caches.setdefault(remembered, lru_cache(remembered.most)(remembered.function))
        return cache


_in_use = [Memory()]
"""The memory that all functions use, as the last one."""


@contextmanager
def use(memory: Memory) -> Iterator[None]:
    """Replace the memory of the whole process while the block runs."""
    _in_use.append(memory)
    try:
        yield
    finally:
        _in_use.remove(memory)


def remembered(most: int) -> Callable[[Callable[P, T]], Remembered[P, T]]:
    """Decorate a function so that at most so many of its last results are kept."""
    return lambda function: Remembered(function, most)
