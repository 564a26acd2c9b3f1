"""Run, watch and maintain the sinks of a catalog.

* `run`: Run jobs, and report the status of sinks and sources.
* `workload`: Read from the catalog which jobs to run.
* `capture_directory`: Read from the catalog which sources to capture, and report their status.
* `process`: Start a child process that runs sinks, and read its events.
* `wait_for_target`: Wait until jobs have committed all rows that their sources had at the request.
* `maintenance`: Run OPTIMIZE SINK and ALTER SINK … PUBLISH.
* `error_recovery`: Run ALTER SOURCE … SKIP and REPLAY ERRORS.
"""
