"""Plan CREATE SECRET as a name: the value remains in the statement, and never enters a plan."""

from __future__ import annotations

import base64
from dataclasses import replace

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span
from sinkql.script.redaction import REDACTED


def plan_secret(full_name: str, statement: ast.CreateSecret) -> logical.Secret:
    """Return the secret's name; raise like `check_secret`."""
    check_secret(statement.value)
    return logical.Secret(full_name)


def check_secret(value: ast.SecretValue) -> None:
    """Raise SQ2610 for an empty reference, SQ2611 to SQ2614 for a literal that is not text."""
    if not isinstance(value, ast.Call) or not value.refers:
        literal_text(value)
    elif not all(argument.value for argument in value.arguments):
        one = len(value.arguments) == 1
        shown = "'…'" if one else "'…', '…'"
        raise SinkqlError(
            "SQ2610",
            f"{value.function} takes {'a string that is' if one else 'strings that are'} not empty",
            value.span,
            hint=f"Write a value between the quotes: {value.function}({shown}).",
        )


def literal_text(value: ast.SecretValue) -> str:
    r"""Return the text of a literal; raise SQ2611 to SQ2614.

    A secret is bytes, so a literal that begins with \x is hexadecimal, as in Postgres.
    """
    text = _text(value)
    if isinstance(value, ast.Call) or not text.startswith("\\x"):
        return text
    try:
        decoded = bytes.fromhex(text[2:])
    except ValueError:
        raise SinkqlError(
            "SQ2611",
            "the text after \\x is not hexadecimal",
            value.span,
            hint="Write two digits for each byte, or another first character.",
        ) from None
    return _utf8_text(decoded, value.span, "Write the text itself, without \\x.")


def _text(value: ast.SecretValue) -> str:
    match value:
        case ast.Text():
            return value.value
        case ast.Joined():
            return "".join(_text(part) for part in value.parts)
        case ast.Call() if value.refers:
            raise SinkqlError(
                "SQ2614",
                f"{value.function}() cannot be combined with ||",
                value.span,
                hint="Create a secret for each part, and join them in the option: = 'id:' || SECRET name.",
            )
        case ast.Call(arguments=(text, encoding)):
            return _decode(text, encoding, value)
    raise AssertionError(value.function)


def _decode(text: ast.Text, encoding: ast.Text, call: ast.Call) -> str:
    # as in Postgres, white space in the text is ignored
    written = "".join(text.value.split())
    try:
        match encoding.value.lower():
            case "base64":
                decoded = base64.b64decode(written, validate=True)
            case "hex":
                decoded = bytes.fromhex(written)
            case _:
                raise SinkqlError(
                    "SQ2612",
                    f'unrecognized encoding "{encoding.value}"',
                    encoding.span,
                    hint="Use decode('…', 'base64') or decode('…', 'hex').",
                )
    except ValueError:
        raise SinkqlError(
            "SQ2611",
            f"the argument of decode() is not valid {encoding.value.lower()}",
            text.span,
            hint="Check that the text was copied completely.",
        ) from None
    return _utf8_text(decoded, call.span, "Leave decode out to keep the text as it is written.")


def _utf8_text(decoded: bytes, span: Span, hint: str) -> str:
    try:
        return decoded.decode()
    except UnicodeDecodeError:
        raise SinkqlError("SQ2613", "the decoded value is not UTF-8 text", span, hint=hint) from None


def without_literal(statement: ast.Create) -> ast.Create:
    """Return the statement as it may be stored, without a secret's literal."""
    match statement:
        case ast.CreateSecret(value=ast.Call() as call) if call.refers:
            return statement
        case ast.CreateSecret():
            return replace(statement, value=ast.Text(REDACTED))
        case _:
            return statement
