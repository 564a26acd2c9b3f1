"""Where a catalog and its files are reached with keys that may run out.

* `access`: object stores of connections → files, with the keys that hold when a file is opened.
* `local`: files on this machine, and how they become durable.
* `failure`: what a storage raises → coded errors.
"""
