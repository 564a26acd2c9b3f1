"""Find secrets in the URLs of a text, and replace them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SCHEME = r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*://"
_WEB = r"(?<![a-z0-9+.-])(?:https?|wss?|ftps?|thrift)://"
_NAMES = (
    r"(?!(?:partition|primary|sort|row|order|foreign|cluster|message|unique)[_.-]?key=)"  # keys of rows
    r"(?:[a-z0-9_.-]{0,80}(?:passw(?:or)?d|passphrase|pwd|secret|token|signature|credentials?|(?:api|access|account)key)"
    r"|(?:[a-z0-9_.-]{0,80}[_.-])?(?:pass|key|sig|sas|auth|authorization|pat|jwt))"
)
"""Parameters of URLs that hold secrets: `token`, `X-Amz-Signature`, `client_secret`, `api-key`, `sig`."""


def _patterns(character: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns that find secrets in URLs of these characters; group 1 is the secret."""
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            # anything before the host of a web address, where a name alone may be a token
            rf"{_WEB}((?:(?![/?#]){character}){{1,2000}})@",
            # the password as database drivers parse it: from the first colon to the last @
            rf"(?!{_WEB}){_SCHEME}(?:(?![/?#:@]){character}){{0,2000}}:((?!\d*(?:[/?#]|$)){character}{{1,2000}})@",
            rf"(?<=[?&#]){_NAMES}=((?:(?![&#]){character}){{1,2000}})",
        )
    )


_IN_TEXT = _patterns(r"(?:''|[^\s'\"<>])")
_WHOLE = _patterns(r"[^\n]")


def secrets(text: str, *, whole: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each secret in the URLs of a text; they may overlap.

    With `whole`, the text is one URL, which may contain any character.
    """
    if "://" not in text:
        return
    for pattern in _WHOLE if whole else _IN_TEXT:
        for match in pattern.finditer(text):
            yield match.span(1)


def without_secrets(text: str) -> str:
    """Replace the secrets in the URLs of a text by asterisks."""
    for start, end in secrets(text):
        text = text[:start] + "*" * (end - start) + text[end:]
    return text
