"""The demo: an Event Hub, files and Spark on one machine, watched live and checked at the end.

`steps` shows progress, `cluster` talks to Kubernetes through kubectl and helm, `run` holds the steps, `publisher`
runs in a pod, `watch` follows the EventConsumer, `verify` compares Spark's result with what was sent, `failure`
explains an error.
"""
