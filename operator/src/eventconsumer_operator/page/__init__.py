"""The status page: what the operator saw of each EventConsumer in the last hour, for people with a browser. Read-only.

histories -> history (what is kept) -> view (what is told) -> server (HTTP) -> static (the page itself). It holds only
what reconciles saw anyway: it makes no request to the API server or to hosts, and reads no Secret.
"""
