"""Reads blobs that others may have written in a child process with limits of memory, CPU time and output.

A compressed file of some KB can decompress to gigabytes. In the child only the child fails, and the file has a problem.
`reader` starts the child and passes it the bytes that it asks for; `child` is its program.
"""
