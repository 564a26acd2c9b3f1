"""Generate a page for each error code from its declaration, its messages in the source and its goldens."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path

from docs.links import TOPICS
from docs.markdown_parts import cell, escaped, front_matter, paragraph, text_block
from docs.prose import phrases
from docs.statement_names import page_of
from golden import casefile
from golden.test_golden import FILES
from sinkql.errors import Code, Family
from sinkql.errors import error_codes as declared
from sinkql.parser.hint.other_dialects import habits

_PACKAGE = Path(__file__).parents[2] / "sinkql"
_CODE = re.compile(r"SQ\d{4}")
_WIDTH = 100
"""The widest source line of an example; a longer line is cut around the caret."""
_LONGEST_TITLE = 90
_INDEX = """# Error codes

Look up an error code to see its cause and its cure.

An error is `path:line:col: error[SQ2204]: message`, the source line with a caret, sometimes a detail, and a hint. With
`--output json`, the same fields are data. In a terminal, `sinkql help SQ2204` shows the page of a code.

The first digit of a code is its family, which decides the exit code:

| codes | the error is about | exit code |
|---|---|---|
"""
_OTHER = """
Other exit codes are 0 for success and 64 for a wrong command line. A signal ends a command with 130 or 143.
[The command line](../reference/cli.md#exit-codes) lists all of them.

The page of a code says whether a running sink retries after the error or stops.
"""


def codes() -> dict[str, list[str]]:
    """Return the codes of the package with their messages; … stands for the parts of a message that vary."""
    found: dict[str, list[str]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        for code, message in _messages(ast.parse(path.read_text())):
            messages = found.setdefault(code, [])
            if message and message not in messages:
                messages.append(message)
    for form in (*habits().statement, *habits().query):
        message = _line(form.message.replace("{0}", "…"))
        if message not in found.setdefault(form.code, []):
            found[form.code].append(message)
    return found


def pages() -> dict[str, str]:
    """Return the pages by their paths under docs/: one for each code, and their index."""
    messages = codes()
    found = {f"errors/{code}.md": _page(code, messages[code]) for code in declared}
    return {**found, "errors/index.md": _index()}


def _index() -> str:
    parts = [front_matter("exit code", "error message", "failure", "troubleshooting"), "\n", _INDEX]
    parts += [f"| SQ{digit}… | {each.title} | {each.exit_code} |\n" for digit, each in enumerate(Family, 1)]
    parts.append(_OTHER)
    for family in Family:
        parts.append(f"\n## {family.title[0].upper()}{family.title[1:]}\n\n| code | cause |\n|---|---|\n")
        for code in sorted(declared):
            if declared[code].family is family:
                parts.append(f"| [{code}]({code}.md) | {cell(summary(code))} |\n")
    return "".join(parts)


def _page(code: str, messages: list[str]) -> str:
    about = declared[code]
    shown = sorted({_whole(code, each) for each in messages})
    example = _examples().get(code)
    form = _form(shown, example)
    title = f"{code}: {escaped(form)}" if form is not None else code
    parts = [front_matter(*_keywords(about)), f"# {title}\n", paragraph(escaped(about.cause))]
    parts.append(paragraph(f"**What to do.** {escaped(about.cure)}"))
    if example is not None:
        parts.append(f"## Example\n\n{text_block(example)}")
    if shown and shown != ["…"] and (len(shown) > 1 or title == code):
        parts.append(f"## Messages\n\nIn a message, … stands for a changing part.\n\n{text_block(chr(10).join(shown))}")
    parts.append(f"## Effect\n\n{_effect(about)}\n")
    parts.append(f"## See also\n\n{_links(code, about)}")
    return "\n".join(parts)


def _form(messages: list[str], example: str | None) -> str | None:
    """Return the message for a title: the only message, or the form of the example, if it says enough."""
    if len(messages) == 1:
        return messages[0] if _is_title(messages[0]) else None
    head = (example or "").partition("\n")[0].partition(": ")[2]
    fitting = [
        each
        for each in messages
        if re.fullmatch(".+".join(re.escape(part) for part in each.split("…")), head) and _is_title(each)
    ]
    return max(fitting, key=lambda each: len(each.replace("…", "")), default=None)


def _is_title(message: str) -> bool:
    words = re.findall(r"\w{2,}", message)
    if len(message) > _LONGEST_TITLE or len(words) < 3 or message.count("…") > 3:
        return False
    return not any(phrase.pattern.search(message) for phrase in phrases())


def _keywords(about: Code) -> list[str]:
    return ["error", about.family.name.lower(), *(["retryable"] if about.retryable else []), *about.symptoms]


def _effect(about: Code) -> str:
    if about.cause.startswith("A notice"):
        return "This is a notice: the statement succeeds."
    if about.cause.startswith("A warning of sinkql lint"):
        return "This is a warning of `sinkql lint`. It changes nothing."
    if about.family in (Family.SYNTAX, Family.MEANING):
        return f"The statement fails. A command ends with exit code {about.exit_code}."
    sink = "A running sink retries." if about.retryable else "A running sink stops."
    return f"{sink} A command ends with exit code {about.exit_code}."


def _links(code: str, about: Code) -> str:
    found = [_topic(code)]
    if about.of_loss:
        found.insert(0, ("Lost history", "how-to/lost-history.md"))
    for name, path in _statements_of(code):
        found.append((name, f"sql/{path}"))
    found += [("All error codes", "errors/index.md"), ("Questions people ask", "faq.md")]
    return "".join(f"* [{name}]({_relative(path)})\n" for path, name in {path: name for name, path in found}.items())


def _relative(path: str) -> str:
    return path.removeprefix("errors/") if path.startswith("errors/") else f"../{path}"


def _topic(code: str) -> tuple[str, str]:
    return next(TOPICS[code[:length]] for length in range(6, 2, -1) if code[:length] in TOPICS)


def summary(code: str) -> str:
    """Return the first sentence of a code's cause."""
    sentence = re.split(r"(?<=\.) (?=[A-Z])", declared[code].cause.removeprefix("A notice: "))[0]
    return sentence[0].upper() + sentence[1:]


def codes_of(file: str) -> list[tuple[str, int]]:
    """Return the codes with which a page's statements fail in the goldens, the most frequent first."""
    counted = Counter(code for code, _, text in _cases() if (page := page_of(text)) is not None and page[1] == file)
    return counted.most_common()


# --- examples from the goldens ---------------------------------------------------------------------------------------


@cache
def _examples() -> dict[str, str]:
    """Return for each code the shortest error or notice in a golden, with a hint if any has one."""
    found: dict[str, str] = {}
    for code, shown, _ in _cases():
        if code not in found or _length(shown) < _length(found[code]):
            found[code] = shown
    return found


def _length(shown: str) -> tuple[bool, bool, bool, int]:
    return "^" not in shown, "\n1 | " not in shown, "\nhint: " not in shown, len(shown)


@cache
def _statements_of(code: str) -> tuple[tuple[str, str], ...]:
    """Return the pages of the two statements that fail most often with a code in the goldens."""
    counted = Counter(page for each, _, text in _cases() if each == code and (page := page_of(text)) is not None)
    return tuple(page for page, _ in counted.most_common(2))


@cache
def _cases() -> tuple[tuple[str, str, str], ...]:
    """Return the code, the shown text and the statement of each error and notice in the goldens."""
    found = []
    for path in FILES:
        for case in casefile.read(path.read_text("utf-8"))[0]:
            for block in re.split(r"\n(?=(?:error|notice)\[SQ)|\n\n", case.output):
                if head := re.match(r"(?:error|notice)\[(SQ\d{4})\]: ", block):
                    lines = block.splitlines()
                    kept = [lines[0], *_narrow(lines[1:])]
                    source = next((line.partition(" | ")[2] for line in lines if re.match(r"\d+ \| ", line)), "")
                    begun = case.command.startswith(("parse", "print")) or not page_of(source)
                    found.append((head[1], "\n".join(kept), case.input if begun else source))
    return tuple(found)


def _narrow(lines: list[str]) -> list[str]:
    """Return the lines below an error's first line, with the source line cut around its caret."""
    kept = []
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        if re.match(r"\d+ \| ", line) and "^" in below and len(line) > _WIDTH:
            label, _, source = line.partition(" | ")
            at = len(label) + 3
            column = below.index("^") - at
            left = max(0, min(column - _WIDTH // 3, len(source) - _WIDTH))
            cut = ("…" if left else "") + source[left + bool(left) : left + _WIDTH]
            cut = cut[:-1] + "…" if left + _WIDTH < len(source) else cut
            marks = min(below.count("^"), max(1, len(cut) - (column - left)))
            kept += [f"{label} | {cut}", " " * (at + column - left) + "^" * marks]
        elif set(line.strip()) == {"^"} and kept and set(kept[-1].strip()) == {"^"}:
            continue
        elif re.match(r"\d+ \| |\s*\^|hint: |detail: ", line):
            kept.append(line)
    return kept


# --- messages from the source ----------------------------------------------------------------------------------------


def _whole(code: str, message: str) -> str:
    """Return a message in its shown form; the source may contain only the name of an unsupported construct."""
    if (
        not code.startswith("SQ29")
        or any(word in message for word in ("support", "allowed"))
        or message.endswith(" yet")
        or message == "…"
    ):
        return message
    return f"{message} not supported yet" if message.endswith(" are") else f"{message} is not supported yet"


def _messages(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each code with the texts after it, as arguments or in a tuple; a helper may add the code."""
    helpers = dict(_helpers(tree))
    for node, known in _within(tree, {}):
        match node:
            case ast.Constant(value=str() as value) if _CODE.fullmatch(value):
                yield value, ""
            case ast.Call(func=ast.Name(id=name), args=[message, *_]) if name in helpers:
                yield from ((helpers[name], _line(text)) for text in _texts(message, known))
            case ast.Call(args=parts) | ast.Tuple(elts=parts):
                for first, second in pairwise(parts):
                    codes = [text for text in _texts(first, known) if _CODE.fullmatch(text)]
                    yield from ((code, _line(text)) for code in codes for text in _texts(second, known) if text != code)


def _helpers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the functions that create an error from their first argument, each with its code."""
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or not function.args.args:
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(args=[ast.Constant(value=str() as code), ast.Name(id=name), *_]) if _CODE.fullmatch(code):
                    if name == function.args.args[0].arg:
                        yield function.name, code


def _within(node: ast.AST, known: Mapping[str, ast.expr]) -> Iterator[tuple[ast.AST, Mapping[str, ast.expr]]]:
    """Yield all nodes in order, each with the last values assigned to names before it."""
    if isinstance(node, ast.Module | ast.FunctionDef):
        known = dict(known)
    yield node, known
    for child in ast.iter_child_nodes(node):
        yield from _within(child, known)
    match node, known:
        case ast.Assign(targets=[ast.Name(id=name)], value=value), dict():
            known[name] = value


def _texts(node: ast.expr, known: Mapping[str, ast.expr]) -> list[str]:
    """Return the texts that an expression may evaluate to."""
    match node:
        case ast.Name(id=name) if name in known:
            return _texts(known[name], {})
        case ast.IfExp(body=body, orelse=orelse):
            return _texts(body, known) + _texts(orelse, known)
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return _texts(value, known)
        case _:
            text = _text(node)
            return [] if text is None else [text]


def _line(text: str) -> str:
    return re.sub(r"\{\w+\}", "…", text).replace("\n", " ")


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return re.sub("…+", "…", "".join(_text(each) or "…" for each in values))
        case ast.FormattedValue():
            return "…"
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return (_text(left) or "…") + (_text(right) or "…")
        case _:
            return None
