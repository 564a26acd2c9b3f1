"""Decode JSON and convert plain values to typed ones, safely from several threads.

msgspec inspects a type when it first decodes it, and two threads that inspect one type at the same time crash the
process. Here a lock lets one thread do it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
Hook = Callable[[type[Any], Any], Any]
"""Convert a plain value to a type that msgspec does not support: `hook(type, value)`."""

_LOCK = threading.Lock()
_DECODERS: dict[tuple[Any, Hook | None], msgspec.json.Decoder[Any]] = {}


@overload
def decoder(type_: type[T], hook: Hook | None = None) -> msgspec.json.Decoder[T]: ...
@overload
def decoder(type_: Any, hook: Hook | None = None) -> msgspec.json.Decoder[Any]: ...
def decoder(type_: Any, hook: Hook | None = None) -> msgspec.json.Decoder[Any]:
    """Return the JSON decoder of a type; each call returns the same one."""
    present = _DECODERS.get((type_, hook))
    if present is None:
        with _LOCK:
            present = _DECODERS.setdefault((type_, hook), msgspec.json.Decoder(type_, dec_hook=hook))
    return present


@overload
def convert(value: Any, type_: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: Any, type_: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, type_: Any, *, strict: bool = True) -> Any:
    """Convert a plain value to a type; unless `strict`, texts too. Raises msgspec.ValidationError."""
    decoder(type_)
    return msgspec.convert(value, type_, strict=strict)
