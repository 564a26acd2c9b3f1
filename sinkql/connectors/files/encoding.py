"""The option ENCODING → the name that Python has for it."""

from __future__ import annotations

import codecs
import re

_NAMES = {"unicode": "utf-8", "koi8r": "koi8-r", "koi8u": "koi8-u", "euccn": "gb2312", "euctw": "big5"}
"""Those of Postgres that Python does not have."""


def encoding_of(name: str) -> str | None:
    """Return what Python calls an encoding of texts, None for UTF-8; raises LookupError for one that it does not have.

    Names are those of Postgres, of IANA and of Python, in any case.
    """
    short = re.sub(r"[-_ ]", "", name.lower())
    known = _NAMES.get(short) or re.sub(r"^win(?:dows)?(\d+)$", r"cp\1", short)
    try:
        found = codecs.lookup(known)
    except LookupError:
        found = codecs.lookup(name)
    if not found._is_text_encoding or found.name in _OF_PYTHON:
        raise LookupError
    return None if found.name in ("utf-8", "utf-8-sig", "ascii") else found.name


_OF_PYTHON = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "mbcs", "oem", "undefined")
