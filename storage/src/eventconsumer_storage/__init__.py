"""Azure Blob Storage access for hosts and Spark: accounts, credentials, blobs, leases, errors.

Modules, from top to bottom: async_blobs (hosts) and sync_blobs (Spark), confined (a child process that reads blobs of
others), account, credential, blobs, lease_time, causes, errors.
"""
