"""What cannot be read → an error that says what is wrong and how it is written.

* `complaint`: a token that cannot stand where it stands to an error: what was expected, what was found, and the fix.
* `habit`, `habits.toml`: forms of other SQLs, and what is written instead; those of queries, functions and types too.
* `unclosed`: an error behind a string without an end to one at that string.
"""
