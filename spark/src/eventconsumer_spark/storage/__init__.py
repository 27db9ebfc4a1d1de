"""The sink's storage account: paths, settings, blobs and leases."""
