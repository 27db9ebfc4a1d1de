"""To whom chains, leases and hubs belong: the records in storage, and the segments of a hub."""
