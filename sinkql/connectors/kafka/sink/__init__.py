"""Sinks into Kafka topics, exactly once by transactions.

* `plan`: Plan CREATE SINK: the formats of keys and values, and the writer's options.
* `partition`: Compute the partition of each message by PARTITION BY.
* `writer`: Own the topic of a sink: create it, write batches as transactions, and recover.
* `progress`: Read and write the progress of a sink in the progress topic.
* `task`: Write the messages of one bucket into a file.
* `encode`: Encode rows as JSON, TEXT and BYTES.
* `transaction`: Send files of messages and the progress to the brokers in one transaction.
"""
