"""Scripts as text.

* `split`: paths to scripts.
* `variable`: a text with variables to the same with their values, and where each place came from.
* `split`: what was typed to statements and backslash commands.
* `redaction`: a script to the same without its secrets.
* `format`: a script to its canonical form, every comment at its place.
"""
