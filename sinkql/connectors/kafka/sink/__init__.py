"""Sinks into topics of Kafka.

* `plan`: the statement → formats of keys and values, and the writer's options.
* `partition`: PARTITION BY → the partition of each message.
* `encode`, `encode`: rows → messages of JSON, TEXT and BYTES.
* `task`: rows of a bucket → the messages that tell how its keys change, put by in a file.
* `writer`: the topic is made, or found to be the one that the sink has written to.
* `progress`: how far sinks are, by their ids, in a topic of its own.
* `transaction`: messages and progress → the broker, all of them or none.
* `writer`: what a job writes with.
"""
