"""Run the statements that create, alter and drop items of the catalog.

* `create`: Plan, purify and store a new item.
* `alter`: Change the definition, name, owner or comment of an item, and validate connections.
* `references`: Store the tables that are added to a source, and drop tables of it.
* `secret`: Create, rotate, list and check secrets without SQL text.
* `view_job`: Turn a materialized view into a job when its readers, its options or an index need one.
* `plan_history`: Record the earlier plans of a sink, so that it continues in its table.
* `destination`: Find the sinks that share a destination.
* `connector_access`: Provide connectors, also for running sinks, with access to secrets, connections and object
  stores.
* `drop`: Stop the sinks of dropped items, delete the items, and finish interrupted drops.
* `target_table`: Drop the target tables of dropped sinks, and delete the tags in tables that stay.
* `state_cleanup`: Delete the logs, server resources and stored state of dropped sources and sinks.
"""
