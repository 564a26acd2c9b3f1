"""Sources that keep nothing for their readers: one process reads a server once, and keeps a log that all sinks read.

What a capture asks of a connector, and how a connector plans such a source, is in `sinkql.extension.capture`.

* `columnar`: places of values in a block of bytes → Arrow arrays, for decoders of binary formats.
"""
