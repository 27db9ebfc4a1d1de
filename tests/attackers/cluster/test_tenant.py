"""Attacks of a tenant on the demo's release: the API server refuses them; a pod without the control gains.

The pods of the controls are made by the administrator, as an operator without the control would make them.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventconsumer_api.kube.labels import BATCH_JOB_ENV, BATCH_MANIFEST_ENV, SECRETS_DIR
from eventconsumer_api.kube.mounts import SECRET_FILE
from eventconsumer_api.kube.podsecurity import container_security, pod_security
from eventconsumer_demo.steps import DemoError
from tests.attackers.cluster.tenants import KEY, LOOT, SECRET, Tenant
from tests.attackers.outcome import Gained, Outcome, Refused
from tests.e2e.conftest import Demo, handler_image, image
from tests.e2e.consumers import consumer, create_hub, create_secrets
from tests.e2e.sparkshop import SparkShop
from tests.e2e.waiting import until

pytestmark = pytest.mark.long
NAME, SHOP, CONTROL = "attack", "attack-spark", "attack-control"
SHOW = f"sh -c 'env >&2; cat {SECRETS_DIR}/*/{SECRET_FILE} >&2' %s"
FROM_SECRET = {"valueFrom": {"secretKeyRef": {"name": SECRET, "key": KEY}}}


@pytest.fixture(scope="module")
def tenant(demo: Demo) -> Iterator[Tenant]:
    found = Tenant(demo)
    assert found.may("create", "eventconsumers") and not found.may("get", "secrets") and not found.may("create", "pods")
    yield found
    found.leave()


@pytest.fixture(scope="module")
def shop(demo: Demo) -> Iterator[SparkShop]:
    """A consumer with Spark, which has processed a batch."""
    found = SparkShop(demo, SHOP, "jobs")
    found.publish()
    found.until_processed()
    yield found
    demo.cluster.kubectl("delete", "eventconsumer", SHOP, "--ignore-not-found")


def run_pod(demo: Demo, template: dict[str, Any]) -> str:
    """Run a pod to its end as the administrator; return its log."""
    metadata = {"name": CONTROL, "annotations": template.get("metadata", {}).get("annotations", {})}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    demo.cluster.kubectl("delete", "pod", CONTROL, "--ignore-not-found", "--grace-period=0", "--force")
    demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def ended() -> bool:
        return demo.cluster.get("pod", CONTROL)["status"]["phase"] in {"Succeeded", "Failed"}

    try:
        until(ended, f"pod {CONTROL} ends")
        return demo.cluster.kubectl("logs", CONTROL)
    finally:
        demo.cluster.kubectl("delete", "pod", CONTROL, "--grace-period=0", "--force")


def read_the_secret(log: str) -> Outcome:
    return Gained(LOOT) if LOOT in log else Refused("the text of the value stays as it is")


def driver_of(shop: SparkShop, **properties: str) -> dict[str, Any]:
    """The pod of the last driver, for reprocessing, with other properties, and with the Secret in a variable."""
    jobs = sorted(shop.applications().values(), key=lambda job: str(job["metadata"]["creationTimestamp"]))
    template: dict[str, Any] = jobs[-1]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    flags = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    place = container["args"].index("--conf")
    container["args"][place:place] = flags
    (given,) = (each for each in container["env"] if each["name"] == BATCH_JOB_ENV)
    job = json.loads(given["value"])
    number, name = job["number"], f"again-{len(properties)}-{job['number']}"
    reprocess = {"name": name, "first": number, "last": number}
    job |= {"reprocess": reprocess, "output": job["output"] | {"path": f"{job['output']['path']}_reprocess/{name}"}}
    given["value"] = json.dumps(job)
    container["env"] = [each for each in container["env"] if each["name"] != BATCH_MANIFEST_ENV]
    container["env"].insert(0, {"name": "APP_PAYROLL", **FROM_SECRET})
    return template


def test_a_handler_of_python_runs_nothing(tenant: Tenant) -> None:
    resource = consumer(NAME)
    resource["spec"]["processing"] = {
        "handler": "antigravity:Shop",
        "env": [{"name": "BROWSER", "value": SHOW}, {"name": "PAYROLL", **FROM_SECRET}],
    }
    refusal = tenant.apply(resource)
    assert "processing.handler is for an image of your own: set processing.image" in refusal, refusal
    # Without the control: a host whose program imports the module, with the variables.
    given = [{"name": "BROWSER", "value": SHOW}, {"name": "PAYROLL", **FROM_SECRET}]
    container = {
        "name": "host",
        "image": image("processor"),
        "command": ["python3", "-c", "import antigravity, time; time.sleep(1)"],
        "env": given,
        "securityContext": container_security(),
    }
    spec = {"restartPolicy": "Never", "securityContext": pod_security(), "containers": [container]}
    log = run_pod(tenant.demo, {"spec": spec})
    assert read_the_secret(log) == Gained(LOOT), log


def test_a_handler_in_an_image_that_the_administrator_allowed_gets_its_variables(tenant: Tenant) -> None:
    cluster = tenant.demo.cluster
    create_hub(tenant.demo, NAME)
    create_secrets(cluster, NAME)
    resource = consumer(NAME)
    resource["spec"]["processing"] = {
        "handler": "shop:Shop",
        "image": handler_image(),
        "env": [{"name": "APP_PAYROLL", **FROM_SECRET}],
    }
    assert tenant.apply(resource) == ""

    def shown() -> str | None:
        try:
            return cluster.kubectl("exec", f"{NAME}-host-0", "--", "printenv", "APP_PAYROLL").strip()
        except DemoError:
            return None

    assert until(shown, "the host runs") == LOOT
    cluster.kubectl("delete", "eventconsumer", NAME)


def property_is_refused(tenant: Tenant, shop: SparkShop, conf: dict[str, str]) -> None:
    """The API server refuses the consumer with these properties."""
    resource = shop.cluster.get("eventconsumer", SHOP)
    resource = {key: resource[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": SHOP}}
    resource["spec"]["spark"]["application"] = {"conf": conf}
    refusal = tenant.apply(resource)
    assert "spark.application.conf: use only properties of" in refusal, refusal


def test_no_property_of_spark_shows_a_secret(tenant: Tenant, shop: SparkShop) -> None:
    conf = {"spark.driver.maxResultSize": "$(APP_PAYROLL)"}
    property_is_refused(tenant, shop, conf)
    log = run_pod(tenant.demo, driver_of(shop, **conf))
    assert read_the_secret(log) == Gained(LOOT), log


def test_no_level_of_the_log_shows_a_token(tenant: Tenant, shop: SparkShop) -> None:
    conf = {"spark.log.level": "ALL"}
    property_is_refused(tenant, shop, conf)
    # Nor does the image, where the property came past both: the driver creates executors with its token.
    shop.apply(mode="Executors")
    shop.publish()
    shop.until_processed()
    log = run_pod(tenant.demo, driver_of(shop, **conf))
    assert '"level": "info"' in log, log  # the level was taken
    assert "Bearer eyJ" not in log and "oauthToken" not in log, log
