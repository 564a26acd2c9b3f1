"""Statements that change items of the catalog.

* `create`, `alter`, `drop`: what each family of statements does.
* `naming`: names, owners and comments. `secret`: secrets made and rotated without being SQL text.
* `access`: what connectors may reach the outside with.
* `state`, `tagged`, `target`: what is kept of sinks elsewhere, and goes with them; their tables, where these go too.
* `shared`: sinks that write to one place.
* `earlier_plan`: how a sink goes on in its table when it gets other rows.
"""
