"""`sinkql secret`: set a secret from a hidden prompt or a pipe, list the secrets, and check them."""

from __future__ import annotations

import sys

import click

from sinkql.cli.context import names_of, open_existing, open_session
from sinkql.errors import SinkqlError


@click.group()
def secret() -> None:
    """Set, list and check secrets."""


@secret.command("set", short_help="Create a secret, or change its value.")
@click.argument("name", shell_complete=names_of("SECRET"))
@click.option("--if-exists", is_flag=True, help="Do nothing if the secret does not exist, instead of creating it.")
@click.pass_context
def set_(context: click.Context, name: str, if_exists: bool) -> int:
    """Create the secret NAME, or change its value.

    The command asks for the value without showing it, or reads it from a pipe without the last newline. It cannot be an
    argument, since other users of the machine can see those.
    """
    from sinkql.catalog.secret.value import SecretValue
    from sinkql.session.item.secret import set_secret

    value = SecretValue(_asked(name) if sys.stdin.isatty() else _piped(name))
    session, output = open_session(context)
    done = set_secret(name, value, session.catalog, create_new=not if_exists)
    message = f'secret "{name}" is {done}' if done else f'secret "{name}" does not exist, nothing done'
    output.line(message, secret=name, done=done)
    return 0


@secret.command("list", short_help="List the secrets.")
@click.pass_context
def list_(context: click.Context) -> int:
    """List the secrets, and where the value of each is stored."""
    from sinkql.planner.name import short_name
    from sinkql.session.item.secret import secrets

    session, output = open_existing(context)
    output.table(("secret", "kept in"), [(short_name(name), where) for name, where in secrets(session.catalog)])
    return 0


@secret.command(short_help="Check that secrets can be read.")
@click.argument("names", nargs=-1, shell_complete=names_of("SECRET"))
@click.pass_context
def check(context: click.Context, names: tuple[str, ...]) -> int:
    """Read the secrets NAMES, or all, as a job does, and report unreadable ones. Shows no values."""
    from sinkql.session.item.secret import check_secret, secrets

    session, output = open_existing(context)
    code = 0
    for name in names or [name for name, _ in secrets(session.catalog)]:
        try:
            short = check_secret(name, session.catalog)
            output.line(f'secret "{short}" can be read', secret=short, readable=True)
        except SinkqlError as error:
            output.error(error)
            code = code or error.exit_code
    return code


def _asked(name: str) -> str:
    value: str = click.prompt(f"Value of secret {name}", hide_input=True, confirmation_prompt="Once more", err=True)
    return value


def _piped(name: str) -> str:
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise SinkqlError(
            "SQ4125", f'the value of secret "{name}" is not UTF-8 text', hint="Store it as base64, or in a file."
        ) from None
    return text.removesuffix("\n").removesuffix("\r")
