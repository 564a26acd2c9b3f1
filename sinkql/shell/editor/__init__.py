"""What happens while somebody types.

* `prompt`: the line editor, what Enter does in it, and its colours.
* `prompt`: what was typed before, without secrets.
* `highlight`: typed text to styled text.
* `completer`: the text before the cursor to the menu of what may stand there.
* `candidates`, `candidates`, `completer`: names of the catalog, options and their values, backslash commands for that
  menu.
"""
