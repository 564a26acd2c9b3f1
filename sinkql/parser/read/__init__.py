"""Text → the tree of a statement.

* `lexer`, `lexer`: text to lexemes; strings, comments and names are whole and valid after it.
* `automaton`, `tables`, `automaton`: the files of the grammar to tables, which Lark makes; tokens to a tree by them.
* `reader`, `lookahead`: one statement's lexemes to a tree; here a word becomes a keyword or a name.
* `tree`: the parts of a tree.
"""
