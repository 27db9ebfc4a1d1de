"""Identity of chains, leases and hubs: the records in storage, and the segments of a hub."""
