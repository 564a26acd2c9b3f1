"""Statements that change items of the catalog.

* `create`, `alter`, `drop`: what each family of statements does.
* `alter`: names, owners and comments. `secret`: secrets made and rotated without being SQL text.
* `connector_access`: what connectors may reach the outside with.
* `state_cleanup`, `target_table`, `target_table`: what is kept of sinks elsewhere, and goes with them; their tables,
  where these go too.
* `destination`: sinks that write to one place.
* `plan_history`: how a sink goes on in its table when it gets other rows.
"""
