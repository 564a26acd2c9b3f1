"""What an object store's connection gives to others: the properties that file systems and table libraries take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Options = Mapping[str, Any]
"""A connection's planned options (`logical.Connection.options`, `physical.Connection.options`)."""

RevealSecret = Callable[[str], str]
"""Return a secret item's value by its full name."""


class ObjectStore(Protocol):
    """Give access to an object store. Credentials may run out: ask again for each batch."""

    def properties(self) -> Mapping[str, str]:
        """Return `s3.endpoint`, `s3.region`, `s3.access-key-id`, `s3.secret-access-key` and the like; never log it."""


OpenStore = Callable[[Options, RevealSecret], ObjectStore]
