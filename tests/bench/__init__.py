"""Measurements on real processes.

`python -m tests.bench` measures what has a peer (receiving, draining, memory, latency, storage calls, balance) and
writes docs/benchmarks. The others (failover, operator, spark_read, spark_resident, spark_kills) are programs of their
own.
"""
