"""What cannot be read → an error that says what is wrong and how it is written.

* `syntax_error`: a token that cannot stand where it stands to an error: what was expected, what was found, and the fix.
* `other_dialects`, `other_dialects.toml`: forms of other SQLs, and what is written instead; those of queries, functions
  and types too.
* `syntax_error`: an error behind a string without an end to one at that string.
"""
