"""Map the names of encodings, as the option ENCODING has them, to Python's."""

from __future__ import annotations

import codecs
import re

_NAMES = {"unicode": "utf-8", "koi8r": "koi8-r", "koi8u": "koi8-u", "euccn": "gb2312", "euctw": "big5"}
"""Names of Postgres that Python does not have."""


def encoding_of(name: str) -> str | None:
    """Return Python's name of a text encoding, None for UTF-8; raise LookupError for an unknown one.

    A name of Postgres, of IANA or of Python, in any case, is accepted.
    """
    short = re.sub(r"[-_ ]", "", name.lower())
    python_name = _NAMES.get(short) or re.sub(r"^win(?:dows)?(\d+)$", r"cp\1", short)
    try:
        codec = codecs.lookup(python_name)
    except LookupError:
        codec = codecs.lookup(name)
    if not codec._is_text_encoding or codec.name in _OF_PYTHON:
        raise LookupError
    return None if codec.name in ("utf-8", "utf-8-sig", "ascii") else codec.name


_OF_PYTHON = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "mbcs", "oem", "undefined")
