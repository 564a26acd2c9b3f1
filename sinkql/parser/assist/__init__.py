"""Text that is being typed → what helps with it.

* `completion`: a text and a cursor to what may stand there, by the grammar.
* `completion`: a statement up to a name to the kinds of items that the name may be of.
* `completion`: a query up to the cursor to what may stand there, by its clauses.
* `highlight`: a text, right or wrong, to what each part of it is.
* `syntax_help`: the grammar to a statement's syntax, as manuals write it.
"""
