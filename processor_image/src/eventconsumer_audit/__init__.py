"""The auditor: checks a consumer's container against the invariants of exactly-once files, from storage alone.

It only reads, with its own parsers of names, metadata, lease bodies, manifests, commits and the table's log, so that
the same mistake cannot hide in writer and auditor. This package imports nothing of the host; docs/reference/audit.md
lists what both share. `read` fetches, `names` and `leases` parse, `chain`, `batches`, `capture` and `deep` check,
`model` is the report, `show` prints it. `tablelog`, `tablestate` and `table` do the same for a Delta table over the
files.
"""
