"""The upper and lower case of letters, one letter each: Unicode's simple case mappings, as in Postgres.

Java and Python have other mappings: to several letters (ß), by context (Σ at the end of a word), and by their own
version of Unicode. These are the mappings of Unicode 16, which Postgres 18 has in `C.UTF-8`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

_UPPER = """
61+26:-20 b5:2e7 e0+23:-20 f8+7:-20 ff:79 101*24:-1 131:-e8 133*3:-1 13a*8:-1 14b*23:-1 17a*3:-1 17f:-12c 180:c3
183*2:-1 188:-1 18c:-1 192:-1 195:61 199:-1 19a:a3 19b:a641 19e:82 1a1*3:-1 1a8:-1 1ad:-1 1b0:-1 1b4*2:-1 1b9:-1
1bd:-1 1bf:38 1c5:-1 1c6:-2 1c8:-1 1c9:-2 1cb:-1 1cc:-2 1ce*8:-1 1dd:-4f 1df*9:-1 1f2:-1 1f3:-2 1f5:-1 1f9*20:-1
223*9:-1 23c:-1 23f+2:2a3f 242:-1 247*5:-1 250:2a1f 251:2a1c 252:2a1e 253:-d2 254:-ce 256+2:-cd 259:-ca 25b:-cb
25c:a54f 260:-cd 261:a54b 263:-cf 264:a567 265:a528 266:a544 268:-d1 269:-d3 26a:a544 26b:29f7 26c:a541 26f:-d3
271:29fd 272:-d5 275:-d6 27d:29e7 280:-da 282:a543 283:-da 287:a52a 288:-da 289:-45 28a+2:-d9 28c:-47 292:-db
29d:a515 29e:a512 345:54 371*2:-1 377:-1 37b+3:82 3ac:-26 3ad+3:-25 3b1+17:-20 3c2:-1f 3c3+9:-20 3cc:-40 3cd+2:-3f
3d0:-3e 3d1:-39 3d5:-2f 3d6:-36 3d7:-8 3d9*12:-1 3f0:-56 3f1:-50 3f2:7 3f3:-74 3f5:-60 3f8:-1 3fb:-1 430+32:-20
450+16:-50 461*17:-1 48b*27:-1 4c2*7:-1 4cf:-f 4d1*48:-1 561+38:-30 10d0+43:bc0 10fd+3:bc0 13f8+6:-8 1c80:-186e
1c81:-186d 1c82:-1864 1c83+2:-1862 1c85:-1863 1c86:-185c 1c87:-1825 1c88:89c2 1c8a:-1 1d79:8a04 1d7d:ee6 1d8e:8a38
1e01*75:-1 1e9b:-3b 1ea1*48:-1 1f00+8:8 1f10+6:8 1f20+8:8 1f30+8:8 1f40+6:8 1f51*4:8 1f60+8:8 1f70+2:4a 1f72+4:56
1f76+2:64 1f78+2:80 1f7a+2:70 1f7c+2:7e 1f80+8:8 1f90+8:8 1fa0+8:8 1fb0+2:8 1fb3:9 1fbe:-1c25 1fc3:9 1fd0+2:8
1fe0+2:8 1fe5:7 1ff3:9 214e:-1c 2170+16:-10 2184:-1 24d0+26:-1a 2c30+48:-30 2c61:-1 2c65:-2a2b 2c66:-2a28 2c68*3:-1
2c73:-1 2c76:-1 2c81*50:-1 2cec*2:-1 2cf3:-1 2d00+38:-1c60 2d27:-1c60 2d2d:-1c60 a641*23:-1 a681*14:-1 a723*7:-1
a733*31:-1 a77a*2:-1 a77f*5:-1 a78c:-1 a791*2:-1 a794:30 a797*10:-1 a7b5*8:-1 a7c8*2:-1 a7cd:-1 a7d1:-1 a7d7*3:-1
a7f6:-1 ab53:-3a0 ab70+80:-97d0 ff41+26:-20 10428+40:-28 104d8+36:-28 10597+11:-27 105a3+15:-27 105b3+7:-27
105bb+2:-27 10cc0+51:-40 10d70+22:-20 118c0+32:-20 16e60+32:-20 1e922+34:-22
"""
"""Runs of letters with the distance to their upper case: one letter, consecutive letters (+), every second one (*)."""
_LOWER = """
49:20 53:20 130:-c7 1c4:2 1c5:1 1c7:2 1c8:1 1ca:2 1cb:1 1f1:2 1f2:1 392:20 395:20 398:20 399:20 39a:20 39c:20 3a0:20
3a1:20 3a3:20 3a6:20 3f4:-3c 412:20 414:20 41e:20 421:20 422:20 42a:20 462:1 1e60:1 1e9e:-1dbf 2126:-1d5d 212a:-20bf
212b:-2046 a64a:1
"""
"""Letters whose lower case does not follow from `_UPPER`, where several letters or none have this upper case."""
SEVERAL = (
    "\u00df\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9a\u1f50\u1f52\u1f54\u1f56\u1f80-\u1faf\u1fb2-\u1fb4"
    "\u1fb6-\u1fb7\u1fbc\u1fc2-\u1fc4\u1fc6-\u1fc7\u1fcc\u1fd2-\u1fd3\u1fd6-\u1fd7\u1fe2-\u1fe4\u1fe6-\u1fe7"
    "\u1ff2-\u1ff4\u1ff6-\u1ff7\u1ffc\ufb00-\ufb06\ufb13-\ufb17"
)
"""Ranges of the letters for which Java has several upper-case letters."""
_NEWER = re.compile(
    "[\u019b\u0264\u1c89\u1c8a\u2c2f\u2c5f\ua7c0\ua7c1\ua7cb-\ua7cd\ua7d0\ua7d1\ua7d6-\ua7dc"
    "\U00010570-\U000105bc\U00010d50-\U00010d85]"
)
"""Letters whose other case Java 17 does not know."""
_RUN = re.compile(r"([0-9a-f]+)(?:([+*])(\d+))?:(-?[0-9a-f]+)")


def _read(text: str) -> dict[int, int]:
    found = {}
    for first, kind, count, distance in _RUN.findall(text):
        step = 2 if kind == "*" else 1
        for number in range(int(count or 1)):
            letter = int(first, 16) + step * number
            found[letter] = letter + int(distance, 16)
    return found


@cache
def upper_mapping() -> Mapping[int, int]:
    """Return the upper case of each letter that has an upper case."""
    return _read(_UPPER)


@cache
def lower_mapping() -> Mapping[int, int]:
    """Return the lower case of each letter that has a lower case."""
    return {upper: letter for letter, upper in upper_mapping().items()} | _read(_LOWER)


def upper(text: str) -> str:
    """Return a text in upper case."""
    return text.upper() if text.isascii() else text.translate(upper_mapping())


def lower(text: str) -> str:
    """Return a text in lower case."""
    return text.lower() if text.isascii() else text.translate(lower_mapping())


def is_known_letter(text: str) -> bool:
    """Return whether every Java maps the text's letters as here, if it maps one letter to one."""
    return text.isascii() or _NEWER.search(text) is None


def cases(letter: str) -> str:
    """Return a letter's lower and upper case; one letter if both are equal."""
    return "".join(dict.fromkeys((lower(letter), upper(letter))))
