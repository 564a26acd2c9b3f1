"""Replace control characters in text, so that a terminal shows them and does not obey them.

Data, names and messages of servers may contain control characters that set titles, move the cursor or overwrite lines
(ECMA-48). Each becomes one visible character, so that carets stay in their column.
"""

from __future__ import annotations

_UNKNOWN = "\ufffd"
_PICTURES = 0x2400
"""Unicode's block of control pictures: one for each of the first 32 characters, in their order."""
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
"""Characters that change the direction of the following text (UAX 9)."""
_SHOWN = {
    **{code: chr(_PICTURES + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys((*range(0x80, 0xA0), *_DIRECTIONS, 0x2028, 0x2029), _UNKNOWN),
    **dict.fromkeys(range(0xD800, 0xE000), _UNKNOWN),
}
_ESCAPED = {
    code: f"\\u{code:04x}" for code in (0x7F, *range(0x80, 0xA0), *_DIRECTIONS, 0x2028, 0x2029, *range(0xD800, 0xE000))
}


def for_terminal(text: str) -> str:
    """Replace each control character except line ends and tabs by a visible one."""
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


def for_json(json: str) -> str:
    """Escape the control characters that JSON allows unescaped; the value of the JSON stays the same."""
    return json if json.isascii() and json.isprintable() else json.translate(_ESCAPED)
