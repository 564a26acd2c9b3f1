"""Secrets: what is stored of them, and their values at the moment of their use.

* `value`: a value as a type that does not show it; what CREATE SECRET gives.
* `cipher`: `Cipher`: values and texts ↔ what the catalog file holds of them, encrypted.
* `providers`: a reference → the value that is kept elsewhere; `providers`, `providers`: those of such servers.
* `cipher`: literals of options that take secrets ↔ the same in the file's text of a statement, encrypted.
"""
