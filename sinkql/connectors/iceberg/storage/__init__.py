"""Where a catalog and its files are reached with keys that may run out.

* `access`: object stores of connections → files, with the keys that hold when a file is opened.
* `signing`: an object store's keys → a session that signs each request with those that hold then.
* `failure`: what a storage raises → coded errors.
"""
