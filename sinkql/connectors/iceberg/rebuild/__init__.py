"""All rows of an upsert sink's view, computed anew → the table made equal to them in one snapshot.

* `digest`: rows to hashes of all that is in them.
* `collect`: the changes of one part of the input to files in a folder of the rebuild, sorted by key.
* `compare`: these files and the table's rows to data files, position deletes and the key index after them.
"""
