"""Parse text into the syntax tree of `ast`.

* `script`: Parse the statements of a script.
* `read`: Split text into lexemes, and read the lexemes of one statement into a tree; here a word becomes a keyword or
  a name.
* `transform`: Transform the tree into a statement.
* `hint`: Turn an unexpected token into an error with its fix.
* `assist`: Help with text that is being typed.

Lark and the syntax tree load with the first parsed text, since many commands parse none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sinkql.errors import SinkqlError
from sinkql.keywords import LANGUAGE, Keywords

if TYPE_CHECKING:
    from sinkql import ast


def parse(text: str, words: Keywords = LANGUAGE) -> tuple[ast.Statement, ...]:
    """Return the statements of a script; spans are offsets into `text`.

    `words` are the words of the installed connectors; text printed from a statement parses without them.

    Raises SinkqlError: SQ10xx for text that is not a statement, SQ29xx for an unsupported statement.
    """
    from sinkql.parser import script  # loads Lark and the syntax tree

    return script.parse(text, words)


def parse_each(text: str, words: Keywords = LANGUAGE) -> Iterator[ast.Statement | SinkqlError]:
    """Yield each statement of a script, or its error; after an error it continues behind the next semicolon."""
    from sinkql.parser import script  # loads Lark and the syntax tree

    return script.parse_each(text, words)
