"""`python -m sinkql` is the command line."""

from sinkql.cli import main

main()
