"""A tenant: the role eventconsumer-editor in the demo's namespace, and no other right."""

import json
from typing import Any

from eventconsumer_demo.steps import DemoError
from tests.e2e.conftest import Demo

NAME = "tenant@example.com"
SECRET, KEY = "payroll", "salaries"
LOOT = "the-salaries-of-all-colleagues"


class Tenant:
    """The tenant's access to the cluster, beside a Secret of somebody else in the namespace.

    Args:
        demo: The cluster.
    """

    def __init__(self, demo: Demo) -> None:
        self.demo = demo
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "eventconsumer-editor",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": NAME}],
        }
        demo.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(binding))
        demo.cluster.secret(SECRET, **{KEY: LOOT})

    def may(self, verb: str, resource: str) -> bool:
        """Whether the tenant has a right."""
        try:
            return self.demo.cluster.kubectl("auth", "can-i", verb, resource, "--as", NAME).strip() == "yes"
        except DemoError:
            return False  # the exit code of "no"

    def apply(self, resource: dict[str, Any]) -> str:
        """Apply a resource; return the refusal, or an empty text."""
        try:
            self.demo.cluster.kubectl("apply", "--as", NAME, "-f", "-", stdin=json.dumps(resource))
        except DemoError as refusal:
            return str(refusal.detail)
        return ""

    def leave(self) -> None:
        """Remove the tenant and the Secret."""
        self.demo.cluster.kubectl("delete", "rolebinding/tenant", f"secret/{SECRET}", "--ignore-not-found")
