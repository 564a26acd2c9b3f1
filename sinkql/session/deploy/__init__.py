"""Plan and apply the steps from a catalog to the items that scripts describe.

* `deployment`: Plan a deployment from scripts and a catalog, and save and load it.
* `script_catalog`: Plan the items and comments that scripts describe.
* `rename`: Detect sinks that scripts give another name.
* `difference`: Compare the present catalog with the described one: create, alter, replace or drop, in order.
* `alteration`: Find the ALTER statements between two definitions of an item, or why the item must be replaced.
* `step`: Define a step, and return the statements that apply steps.
* `dry_run`: Run the steps in memory, and ask external systems whether they would refuse a step.
* `effect`: Describe the effect of a step on data.
* `apply`: Apply a deployment to the catalog.
"""
