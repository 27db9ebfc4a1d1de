"""Documents of each version, as its programs write them: today's code reads them all (docs/contributing/wire.md)."""
