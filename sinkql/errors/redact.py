"""Text → where URLs in it hold secrets, and the same text without them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SCHEME = r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://"
_WEB = r"(?<![a-z0-9+.-])(?:https?|wss?|ftps?|thrift)://"
_NAMES = (
    r"(?!(?:partition|primary|sort|row|order|foreign|cluster|message|unique)[_.-]?key=)"  # which open nothing
    r"(?:[a-z0-9_.-]{0,80}(?:passw(?:or)?d|passphrase|pwd|secret|token|signature|credentials?|(?:api|access|account)key)"
    r"|(?:[a-z0-9_.-]{0,80}[_.-])?(?:pass|key|sig|sas|auth|authorization|pat|jwt))"
)
"""Parameters of URLs that hold secrets: `token`, `X-Amz-Signature`, `client_secret`, `api-key`, `sig`."""


def _patterns(character: str) -> tuple[re.Pattern[str], ...]:
    """Return what finds secrets in URLs of these characters, each in the pattern's group 1."""
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            # anything before the host of a web address, where a name alone may be a token
            rf"{_WEB}((?:(?![/?#]){character}){{1,2000}})@",
            # what drivers of databases take for a password: from the first colon to the last @
            rf"(?!{_WEB}){_SCHEME}(?:(?![/?#:@]){character}){{0,2000}}:((?!\d*(?:[/?#]|$)){character}{{1,2000}})@",
            rf"(?<=[?&#]){_NAMES}=((?:(?![&#]){character}){{1,2000}})",
        )
    )


_IN_TEXT = _patterns(r"(?:''|[^\s'\"<>])")
_WHOLE = _patterns(r"[^\n]")


def secrets(text: str, *, whole: bool = False) -> Iterator[tuple[int, int]]:
    """Yield from where to where a text holds secrets in URLs; with `whole` it is one URL, which may have any character.

    They may overlap.
    """
    if "://" not in text:
        return
    for pattern in _WHOLE if whole else _IN_TEXT:
        for found in pattern.finditer(text):
            yield found.span(1)


def without_secrets(text: str) -> str:
    """Return a text with asterisks for the secrets in its URLs."""
    for start, end in secrets(text):
        text = text[:start] + "*" * (end - start) + text[end:]
    return text
