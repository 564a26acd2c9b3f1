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
        """Return `s3.endpoint`, `s3.access-key-id`, `gcs.oauth2.token` and the like; never log it."""

    def renew(self) -> None:
        """Have the next `properties` ask for other credentials, if there are any: these were refused."""


OpenStore = Callable[[Options, RevealSecret], ObjectStore]
