"""The host: one process a pod that drains partitions of an Event Hub into files, each event exactly once.

It reads lease -> pump -> sink -> checkpoint: `partition` takes leases through `lease`, runs one `pump` for each, which
receives from `source`, commits files to the chain in `sink`, and then moves the checkpoint. `host` is the process
around it, `batch` what one host does for all. Users import `handler`, and nothing else.
"""
