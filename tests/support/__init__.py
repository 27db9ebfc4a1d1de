"""Test infrastructure: real servers, fakes, and helpers that several suites share."""
