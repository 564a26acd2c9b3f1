"""Scripts that describe a catalog → the steps that make it so, explained, saved and run.

* `wanted`: scripts to the catalog as they want it.
* `inplace`: two definitions of one item to the ALTER statements between them, or what hinders.
* `comment`: comments as they are and as they are wanted to steps.
* `difference`: the catalog as it is and as it is wanted to steps.
* `trial`: steps tried in memory, so that running them does what they say.
* `effect`: a step to what it does to data.
* `deployment`: all of these together, for a catalog.
* `apply`: steps to effects.
* `saved`: a deployment to a file, and back.
* `step`: what a step is.
"""
