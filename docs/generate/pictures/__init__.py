"""Pictures that README and docs show of a run: the demo's terminal, and the chart's dashboard.

`make pictures` runs the demo on the local cluster with a Prometheus beside it, and draws both anew. The dashboard is
drawn by matplotlib from its own queries; Grafana draws the same lines.
"""
