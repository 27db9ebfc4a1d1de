"""Azure Blob Storage as hosts and Spark use it: accounts, credentials, blobs, leases, errors.

Modules, from top to bottom: async_blobs (hosts) and sync_blobs (Spark), account, credential, blobs, lease_time, errors.
"""
