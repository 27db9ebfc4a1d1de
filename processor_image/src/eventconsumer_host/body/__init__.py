"""Columns made of the bodies of events: a value is exact, or it is null and the row says why."""
