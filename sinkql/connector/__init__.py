"""What a connector gives to the rest: options to dataclass, facts, readers and writers, and how connectors are found.

* `options`: the options of a statement, bound to a dataclass of the connector.
* `secret`: texts with secrets in them, as plans carry them.
* `store`: `ObjectStore`: what an AWS connection gives to whoever reads or writes files.
* `plan`: `ConnectionKind`, `SourceKind`, `SinkKind`: what planning and purifying ask of a connector.
* `stream`: `Reader`, `Writer`, `Marker`, `WriteTask`: what a running job asks of a connector. No Spark in it.
* `registry`: connectors found by folder and by entry point `sinkql.connectors`.
"""
