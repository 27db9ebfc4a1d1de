"""What programs of different versions read of each other; the contract is docs/contributing/wire.md."""
