"""The auditor: checks a consumer's container against the invariants of exactly-once files, from storage alone.

It reads and never writes, and it trusts none of the code that wrote: names, metadata, lease bodies and manifests are
parsed here once more, so that one mistake cannot hide on both sides. `read` fetches, `names` and `leases` parse,
`chain`, `batches`, `capture` and `deep` judge, `model` is the report, `show` prints it; `prune` is the one that writes:
it replaces old files by tombstones.
"""
