"""JSON and plain values → typed ones, also where threads are the first of a process to ask for a type.

msgspec learns of a type as it first decodes it, and threads that have it learn of one at the same time end the process.
Here one thread does so for all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
Hook = Callable[[type[Any], Any], Any]
"""A type that msgspec has no knowledge of and a plain value → a value of the type."""

_LOCK = threading.Lock()
_DECODERS: dict[tuple[Any, Hook | None], msgspec.json.Decoder[Any]] = {}


@overload
def decoder(type_: type[T], hook: Hook | None = None) -> msgspec.json.Decoder[T]: ...
@overload
def decoder(type_: Any, hook: Hook | None = None) -> msgspec.json.Decoder[Any]: ...
def decoder(type_: Any, hook: Hook | None = None) -> msgspec.json.Decoder[Any]:
    """Return what decodes JSON as a type, the same one each time."""
    found = _DECODERS.get((type_, hook))
    if found is None:
        with _LOCK:
            found = _DECODERS.setdefault((type_, hook), msgspec.json.Decoder(type_, dec_hook=hook))
    return found


@overload
def convert(value: Any, type_: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: Any, type_: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, type_: Any, *, strict: bool = True) -> Any:
    """Return a plain value as a type; unless `strict`, from text too. Raises msgspec.ValidationError."""
    decoder(type_)
    return msgspec.convert(value, type_, strict=strict)
