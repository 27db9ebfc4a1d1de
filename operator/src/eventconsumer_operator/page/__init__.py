"""The status page: the last hour of each EventConsumer in a browser. Read-only.

histories -> history (samples) -> view (JSON) -> server (HTTP) -> static (the page). It only shows what reconciles have
read: it makes no requests to the API server or to hosts, and reads no Secret.
"""
