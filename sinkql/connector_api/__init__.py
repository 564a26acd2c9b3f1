"""The interface between SinkQL and its connectors, in this package and in others.

* `registry`: Finds the connectors, and collects the kinds and keywords that they offer.
* `planning`: Defines a connector and its kinds: what planning and purification call.
* `options`: Binds the options of a statement to a connector's dataclass.
* `option_help`: Describes the options of a dataclass: label, type, default and help.
* `source_options`: Defines the options that sources share: ON ERROR and the retention of a capture log.
* `sink_options`: Defines the options that all sinks have.
* `database_options`: Checks what statements about database servers have in common.
* `types`: Converts SQL types to Arrow types, and suggests a supported type.
* `scaffold`: Parses the address of a server, and describes the statements to draft for it.
* `health_check`: Describes the checks of `sinkql doctor` for servers and sources.
* `identity`: Loads a client certificate into an SSL context.
* `tunnel_keys`: Parses the stored keys of an SSH TUNNEL connection.
* `tunnel`: Opens an SSH tunnel to a server.
* `dead_connection`: Closes a connection that the server has lost without a word.
* `cdc`: Defines what a capture asks of a connector: a server's changes and chunks of its tables.
* `read_history`: Records the last transactions that a capture read, to detect a server restored from a backup.
* `stream`: Defines what a running job asks of a connector: readers, writers, decoders and checkpoints.
* `requests`: Sends requests to the process that runs a sink: replay, accepted loss, waiting.
"""
