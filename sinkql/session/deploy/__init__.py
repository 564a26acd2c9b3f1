"""Scripts that describe a catalog → the steps that make it so, explained, saved and run.

* `deployment`: scripts and a catalog to a deployment; it goes through the modules below.
* `script_catalog`: scripts to the catalog that they describe.
* `difference`: the catalog as it is and as it is described to steps; `step`: what a step is.
* `rename`: sinks that have another name there.
* `alteration`: two definitions of one item to the ALTER statements between them, or what hinders.
* `dry_run`: steps tried in memory, so that running them does what they say.
* `script_catalog`: comments as they are and as they are described to steps.
* `dry_run`: a step to what refuses it outside of the catalog, such as a table of other columns.
* `effect`: a step to what it does to data, or why it is refused.
* `apply`: a deployment to its effects on the catalog.
* `deployment`: a deployment to a file, and back.
"""
