"""The line editor of the shell.

* `prompt`: The prompt, the keys, and the history without secrets.
* `highlight`: Style the typed text.
* `completer`: Complete the text before the cursor: SQL, names and backslash commands.
* `candidates`: The names of the catalog, and options with their values, that complete a text.
"""
