"""What a connector gives to the rest, and what it gets: the interface for connectors, here and in other packages.

* `registry`: connectors found by folder and by entry point `sinkql.connectors`; the words of all of them.
* `planning`: `Connector`, and the kinds that it offers; what planning and purifying ask of them.
* `options`: the options of a statement, bound to a dataclass of the connector, and their types.
* `option_help`: what a dataclass of options says of each: its label, what it takes, whether it is a secret.
* `sink_options`: the options that every sink has.
* `types`, `types`: types of columns and their texts; values of columns.
* `types`: what to write for a type that a column cannot have.
* `jsonb`: JSON with its numbers as they were written.
* `options`: texts with secrets in them, as plans carry them.
* `object_store.store`: what a connection to an object store gives to whoever reads or writes files.
* `object_store.objects`: a bucket's objects, put on conditions, sent in parts and checked where they are got.
* `state_store.directory`: a sink's state, in a folder here and where STATE of its cluster keeps it.
* `stream`: `Reader`, `Decoder`, `Writer`, `Checkpoint`, `WriteTask`: what a running job asks. No Spark in it.
"""
