"""`python -m docs.generate.pictures`: run the demo, and draw docs/images/demo.svg and dashboard.png from that run."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from docs.generate.pictures import dashboard, targets, terminal
from eventconsumer_demo.cluster import Cluster
from tests.integration.monitoring.prometheus import Prometheus

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs/images"
NAMESPACE = "eventconsumer-demo"
STEPS = 300  # points of a line
AFTER = 20  # idle seconds that the dashboard also shows
FIRST_SHOWN, LAST_SHOWN = "A publisher of", "Finished in"  # of the demo's lines


def _local_cluster(question: str) -> str:
    command = [sys.executable, "-m", "local_cluster", question]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def demo_picture(printed: str) -> str:
    """An SVG of the part of the demo about events; the last part names local folders and is omitted.

    Raises:
        StopIteration: The demo's lines have changed.
    """
    lines = terminal.lines(printed)
    first = next(number for number, line in enumerate(lines) if FIRST_SHOWN in line)
    last = next(number for number, line in enumerate(lines) if LAST_SHOWN in line)
    return terminal.picture(["$ make demo", *lines[first:last]], "make demo")


def main() -> int:
    """Draw both; the demo's exit code."""
    IMAGES.mkdir(exist_ok=True)
    cluster = Cluster(NAMESPACE, path=_local_cluster("path"), kubeconfig=Path(_local_cluster("kubeconfig")))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prometheus = Prometheus(folder, {}, discovered=folder / "targets.json")
        with targets.Watch(cluster, folder / "targets.json"):
            prometheus.start()
            try:
                began = time.time()
                code, printed = terminal.record([sys.executable, "-m", "eventconsumer_demo", "up"], ROOT)
                if code:
                    print("The demo failed: no picture was drawn.", file=sys.stderr)
                    return code
                time.sleep(AFTER)
                _draw_dashboard(prometheus, began)
            finally:
                prometheus.stop()
    (IMAGES / "demo.svg").write_text(demo_picture(printed))
    print(*(os.path.relpath(IMAGES / each) for each in ("demo.svg", "dashboard.png")), sep="\n")
    return 0


def _draw_dashboard(prometheus: Prometheus, began: float) -> None:
    end = time.time()
    first = prometheus.api(
        "query", query=f"min(min_over_time(timestamp(eventconsumer_leases_held)[{int(end - began)}s:1s]))"
    )
    begin = float(first["result"][0]["value"][1]) - 5
    step = str(max(1.0, (end - begin) / STEPS))
    shown = []
    for panel in dashboard.panels({"namespace": ".*", "consumer": ".*"}):
        lines = []
        for query, legend in panel.queries:
            answer = prometheus.api("query_range", query=query, start=str(begin), end=str(end), step=step)
            lines += dashboard.series(answer, legend, begin)
        shown.append((panel, lines))
    dashboard.draw(shown, IMAGES / "dashboard.png")


if __name__ == "__main__":
    sys.exit(main())
