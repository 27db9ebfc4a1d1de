"""Pictures of a run for README and docs: the demo's terminal, and the chart's dashboard.

`make pictures` runs the demo on the local cluster with a Prometheus beside it, and draws both again. matplotlib draws
the dashboard from its own queries; Grafana draws the same lines.
"""
