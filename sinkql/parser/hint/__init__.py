"""Errors for text that does not parse.

* `syntax_error`: The error for an unexpected token or an unclosed string, with the fix.
* `other_dialects`: Hints for forms of other SQL dialects, from `other_dialects.toml`.
"""
