"""The state of sinks: a folder on this machine, and a store that every host reaches.

* `directory`: The state directory of a sink, which batches read and write: a cache of its state store.
* `store`: The state store, in a folder or an object store, and the check of STATE.
* `cleanup`: Which local files the store has too, and which are deleted to free disk space.
* `numbered_log`: A numbered log (`sinkql.storage.numbered_log`) in a state store.
"""
