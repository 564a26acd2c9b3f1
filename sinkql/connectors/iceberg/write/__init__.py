"""What a sink writes, batch by batch.

* `mode`: what differs between append and upsert sinks; `append`, `upsert`: their tasks, and what they keep in between.
* `compaction`: compactions of a mode, committed between batches.
* `writer`: a job's `Write` → the writer that owns its table.
"""
