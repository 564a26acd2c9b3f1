"""Text → ast.

* `script`: a script's text to its statements.
* `read`: text to lexemes, and the lexemes of one statement to Lark's tree; here a word becomes a keyword or a name.
* `transform`: the tree to a statement.
* `hint`: a token that cannot stand where it does to an error with its fix.
* `assist`: text that is being typed to what helps with it.

Lark loads with the first text that is parsed: many a command has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.keywords import LANGUAGE, Keywords


def parse(text: str, words: Keywords = LANGUAGE) -> tuple[ast.Statement, ...]:
    """Return the statements of a script; spans are offsets into `text`.

    `words` are those of the installed connectors; what was printed from a statement is read without them.

    Raises SinkqlError: SQ10xx for what is not a statement, SQ29xx for one that this version does not support.
    """
    from sinkql.parser import script  # Lark, as said above

    return script.parse(text, words)


def parse_each(text: str, words: Keywords = LANGUAGE) -> Iterator[ast.Statement | SinkqlError]:
    """Yield each statement of a script, or what is wrong with it; after a mistake it goes on behind the semicolon."""
    from sinkql.parser import script  # as above

    return script.parse_each(text, words)
