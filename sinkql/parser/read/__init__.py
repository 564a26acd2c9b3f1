"""Read statements: text to lexemes, and lexemes to trees.

* `lexer`: Split text into lexemes, and check strings, comments and names.
* `tables`: Generate the tables of the grammar with Lark.
* `automaton`: Load the cached tables, and drive them.
* `lookahead`: Decide by the next words whether a word is a keyword.
* `reader`: Read the lexemes of one statement to a tree.
* `tree`: The nodes of a tree.
"""
