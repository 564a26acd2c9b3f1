"""Print the grammar of a statement as a synopsis, in the notation of manuals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from sinkql import keywords
from sinkql.parser.read import automaton

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"i?|->\s*\w+|\w+|[()\[\]|?*+]|//[^\n]*')
_RULE = re.compile(r"^[!?]?([a-z_]+|[A-Z_]+):", re.MULTILINE)
_SHOWN = {
    "NAME": "name",
    "STRING": "'text'",
    "NUMBER": "number",
    "QUERY": "query",
    "CONDITION": "condition",
    "LABEL": "OPTION",
    "OPTION_NAME": "OPTION",
    "KIND": "KIND",
    "FORMAT_NAME": "FORMAT",
    **keywords.RUNS,
    "DOC_ON": "[ KEY | VALUE ] DOC ON { TYPE | COLUMN }",
    "EXPRESSION": "expression",
    "EXPRESSIONS": "expression [, …]",
    "FROM_ITEMS": "relation [, …]",
}
_LEAVES = {
    "name": "name",
    "value": "value",
    "type": "type",
    "secret_value": "value",
    "setting": "value",
    "option": "OPTION [=] value",
}
"""Rules that need no definition."""
_UNIT = re.compile(r"\[ [^\[\]{}]* \]|\{ [^\[\]{}]* \}|\S+")
"""Parts inside which a line is not broken."""
_INLINE = 60
"""A rule with a shorter text is inserted at its use, a longer one is printed below."""
_WIDTH = 96

PartKind = Literal["text", "rule", "sequence", "choice", "optional", "repeat"]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a grammar rule; `text` is the word, or the name of the rule that it refers to."""

    kind: PartKind
    text: str = ""
    parts: tuple[_Part, ...] = ()


@cache
def statements() -> tuple[str, ...]:
    """Return the names of the rules that are statements, in the grammar's order."""
    found: list[str] = []

    def walk(rule: str) -> None:
        for choice in _choices(_rules()[rule]):
            if choice.kind == "rule" and choice.text.endswith("_statement"):
                walk(choice.text)
            elif choice.kind == "rule":
                found.append(choice.text)

    walk("statement")
    return tuple(found)


def syntax(rule: str, beginning: str = "") -> str:
    """Return the synopsis of a rule: keywords in upper case, `[ ]` optional, `{ | }` a choice, `…` repetition.

    If the rule has several forms, only the forms that begin with `beginning` are returned, or all if none does.
    """
    below: list[str] = []
    forms = []
    for choice in _choices(_rules()[rule]):
        mine: list[str] = []
        parts = _parts(choice, mine, [rule])
        needed = " ".join(part for part in parts if not part.startswith("["))
        forms.append((f"{needed} ".startswith(f"{beginning} "), _wrapped(parts), mine))
    chosen = [form for form in forms if form[0]] or forms
    for _, _, mine in chosen:
        below.extend(mine)
    blocks = ["\nor\n".join(dict.fromkeys(form for _, form, _ in chosen))]
    done = {rule}
    while below:
        name = below.pop(0)
        if name not in done:
            done.add(name)
            choices = [_wrapped(_parts(each, below, [name]), "  ").lstrip() for each in _choices(_rules()[name])]
            short = " | ".join(choices)
            alone = "\n  | ".join(choices) if len(short) > _WIDTH or "\n" in short or " ( " in short else short
            blocks.append(f"{_named(name)} is\n  {alone}")
    return "\n\n".join(blocks)


def _choices(node: _Part) -> tuple[_Part, ...]:
    return node.parts if node.kind == "choice" else (node,)


def _parts(node: _Part, below: list[str], inside: list[str]) -> list[str]:
    """Return the texts of a node's parts in sequence."""
    if node.kind != "sequence":
        return [_text(node, below, inside)]
    texts: list[str] = []
    for before, part in zip((None, *node.parts), node.parts, strict=False):
        inner = part.parts[0] if part.kind == "repeat" else None
        if before is not None and inner is not None and inner.kind == "sequence" and inner.parts[1:] == (before,):
            # x ("," x)* is printed as x [, …]
            texts[-1] += f" [{_text(inner.parts[0], below, inside)} …]"
        else:
            texts.append(_text(part, below, inside))
    return [text for text in texts if text]


def _text(node: _Part, below: list[str], inside: list[str]) -> str:
    match node.kind:
        case "text":
            return node.text
        case "rule":
            return _of_rule(node.text, below, inside)
        case "sequence":
            return " ".join(_parts(node, below, inside))
        case "choice":
            texts = list(dict.fromkeys(_bare(_text(part, below, inside)) for part in node.parts))
            return f"{{ {' | '.join(texts)} }}" if len(texts) > 1 else texts[0]
        case "optional":
            return f"[ {_bare(_text(node.parts[0], below, inside))} ]"
        case "repeat":
            return f"{_text(node.parts[0], below, inside)} …"


def _bare(text: str) -> str:
    """Return a choice without its braces, for use inside other brackets."""
    closed = text.startswith("{ ") and text.find("}") == len(text) - 1
    return text[2:-2] if closed else text


def _of_rule(name: str, below: list[str], inside: list[str]) -> str:
    if name in _LEAVES:
        return _LEAVES[name]
    node = _rules().get(name)
    if node is None:
        return _SHOWN.get(name, name.replace("_", " "))
    if name in inside or name in statements():
        return _named(name)
    mine: list[str] = []
    text = _text(node, mine, [*inside, name])
    if len(text) > _INLINE:
        below.append(name)
        return _named(name)
    below.extend(mine)
    return text


def _named(rule: str) -> str:
    return f"<{rule.replace('_', ' ').strip()}>"


def _wrapped(parts: list[str], indent: str = "") -> str:
    """Break parts into lines: one if they fit, else a line for each optional part; long parts break at blanks."""
    if len(indent) + len(" ".join(parts)) <= _WIDTH:
        return indent + " ".join(parts)
    lines, after_optional = [indent], False
    for part in parts:
        if lines[-1].strip() and (part.startswith("[ ") or (after_optional and part[0].isupper())):
            lines.append(f"{indent}    ")
        after_optional = part.startswith("[ ")
        for word in _UNIT.findall(part):
            if len(lines[-1]) + len(word) > _WIDTH:
                lines.append(f"{indent}      ")
            lines[-1] += f"{word} "
    return "\n".join(line.rstrip() for line in lines)


# --- reading the files of the grammar --------------------------------------------------------------------------------


@cache
def _rules() -> dict[str, _Part]:
    text = automaton.text()
    heads = list(_RULE.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head[1]: _rule(text[head.end() : end]) for head, end in zip(heads, ends, strict=True)}


def _rule(body: str) -> _Part:
    lines = [line.partition("//")[0] for line in body.splitlines() if not line.startswith("%")]
    tokens = [each for each in _TOKEN.findall("\n".join(lines)) if not each.startswith(("->", "//"))]
    return _choice(tokens)


def _choice(tokens: list[str]) -> _Part:
    choices = [_run(tokens)]
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        choices.append(_run(tokens))
    return choices[0] if len(choices) == 1 else _Part("choice", parts=tuple(choices))


def _run(tokens: list[str]) -> _Part:
    parts: list[_Part] = []
    while tokens and tokens[0] not in ("|", ")", "]"):
        parts.append(_suffixed(_atom(tokens), tokens))
    return parts[0] if len(parts) == 1 else _Part("sequence", parts=tuple(parts))


def _atom(tokens: list[str]) -> _Part:
    token = tokens.pop(0)
    if token in ("(", "["):
        inner = _choice(tokens)
        tokens.pop(0)
        return inner if token == "(" else _Part("optional", parts=(inner,))
    if token.startswith('"'):
        return _Part("text", token.removesuffix("i").strip('"'))
    return _Part("rule", token)


def _suffixed(node: _Part, tokens: list[str]) -> _Part:
    if not tokens or tokens[0] not in ("?", "*", "+"):
        return node
    match tokens.pop(0):
        case "?":
            return _Part("optional", parts=(node,))
        case "*" if node.kind != "sequence":
            return _Part("optional", parts=(_Part("repeat", parts=(node,)),))
        case _:
            return _Part("repeat", parts=(node,))
