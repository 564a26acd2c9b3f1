"""`sinkql fmt`: scripts in their canonical form."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=False, path_type=Path))
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Change nothing; print what would change.")
def fmt(files: tuple[Path, ...], check: bool, diff: bool) -> int:
    """Format FILES (or folders of .sql files) in place: keywords in upper case, a clause a line.

    - is standard input, to standard output.

    Comments and queries stay as they are written. Files that do not parse are left alone.
    """
    from sinkql.cli.script import read_script, scripts

    changed = False
    for path in scripts(files):
        text = read_script(path)
        formatted = _formatted(text, str(path))
        changed = changed or text != formatted
        if diff:
            click.echo(_diff(text, formatted, str(path)), nl=False)
        elif check:
            if text != formatted:
                click.echo(path)
        elif str(path) == "-":
            click.echo(formatted, nl=False)
        elif text != formatted:
            path.write_bytes(formatted.encode())
            click.echo(path)
    return 1 if check and changed else 0


def _formatted(text: str, path: str) -> str:
    from sinkql.errors import SinkqlError
    from sinkql.formatting import format_script
    from sinkql.mask import mask

    try:
        return format_script(text)
    except SinkqlError as error:
        masked = mask(text)
        raise masked.cover(error.within(path=path, text=masked.text)) from None


def _diff(text: str, formatted: str, path: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(text.splitlines(), formatted.splitlines(), path, path, lineterm="")
    return "".join(f"{line}\n" for line in lines)
