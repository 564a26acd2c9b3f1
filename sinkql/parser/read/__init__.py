"""Text → Lark's tree.

* `lexical`, `literal`: text to lexemes; strings, comments and names are whole and valid after it.
* `grammar`, `automaton`: the files of the grammar to Lark's tables.
* `reader`, `lookahead`: one statement's lexemes to a tree; here a word becomes a keyword or a name.
* `tree`: the parts of a tree.
"""
