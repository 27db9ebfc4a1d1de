"""The partitions of a host: leases and ownerships, pumps, and the sinks that write files and checkpoints."""
