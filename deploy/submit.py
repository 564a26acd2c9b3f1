"""What spark-submit is given: spark-submit [its options] submit.py exec pipeline.sql."""

from sinkql.cli import main

main()
