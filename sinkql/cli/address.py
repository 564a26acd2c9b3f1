"""The options --from and --registry: a server of which there is no script yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Declared = Callable[..., Any]


def of_server(what: str, *, required: bool = False) -> Callable[[Declared], Declared]:
    """Return what gives a command the parameters `address` and `registry`; `what` says what --from is for."""

    def declare(command: Declared) -> Declared:
        text = f"{what}: postgres://…, mysql://… or kafka://…"
        address = click.option("--from", "address", metavar="URL", required=required, help=text)
        registry = click.option(
            "--registry", metavar="URL", help="With --from kafka://…: the schema registry of its topics."
        )
        return address(registry(command))

    return declare
