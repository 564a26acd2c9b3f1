"""Help with text that is being typed.

* `completion`: Complete a text at the cursor by the grammar: words, kinds of items, and clauses of queries.
* `highlight`: Classify the parts of a text, right or wrong.
* `syntax_help`: Print the grammar of a statement as a synopsis.
"""
