"""Scripts as text, before they are parsed.

* `split`: Find the scripts of paths, and split typed text into statements and backslash commands.
* `variable`: Replace the variables of a script, and map positions back to the original.
* `redaction`: Replace the secrets of a script.
* `format`: Format a script canonically and keep every comment.
"""
