"""The demo: an Event Hub, files and Spark on one machine, watched live and checked at the end.

`steps` shows progress, `cluster` calls kubectl and helm, `run` contains the steps, `publisher` runs in a pod, `watch`
follows the EventConsumer, `verify` compares Spark's result with the sent events, `failure` explains an error.
"""
