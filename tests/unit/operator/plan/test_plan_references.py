"""Secrets and ConfigMaps that a spec may name: none of the operator's own, and those with the allowed prefixes."""

from dataclasses import replace
from typing import Any

import pytest

from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.plan import make_plan
from eventconsumer_operator.settings import Settings
from tests.unit.operator.worlds import HANDLER, SETTINGS, SPARK, SPEC, USER_IMAGE, observed, spec_with

PROXIED = replace(
    SETTINGS,
    proxy_suffixes=("proxy.example",),
    notice_endpoints=("https://hooks.example/",),
    schema_registries=("https://registry.example",),
)
OWN = replace(PROXIED, reserved_secrets=("fleet", "registry"))
FIELDS = {
    "spec.eventHub.authentication.connectionStringSecretRef.name": ("eventHub", "authentication"),
    "spec.checkpointStore.authentication.connectionStringSecretRef.name": ("checkpointStore", "authentication"),
    "spec.sink.authentication.connectionStringSecretRef.name": ("sink", "authentication"),
    "spec.proxy.credentialsSecretRef.name": ("proxy", ""),
    "spec.sink.notices.authentication.headerSecretRef.name": ("notices", ""),
    "spec.spark.output.body.registry.authentication.basicSecretRef.name": ("registry", ""),
    "spec.processing.env": ("processing", ""),
    "spec.processing.envFrom": ("processing", ""),
    "spec.processing.volumes": ("processing", ""),
    "spec.spark.application.env": ("spark", ""),
    "spec.spark.application.envFrom": ("spark", ""),
    "spec.spark.application.volumes": ("spark", ""),
}


def input_from(field: str, kind: str, name: str) -> dict[str, Any]:
    """An item of a list of inputs of user code; `kind` is secret or configMap."""
    if field == "env":
        return {"name": "APP_A", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": "k"}}}
    if field == "envFrom":
        return {"prefix": "APP_", f"{kind}Ref": {"name": name}}
    return {"mountPath": "/mnt/a", kind: {"secretName" if kind == "secret" else "name": name}}


def with_input(field: str, item: dict[str, Any]) -> dict[str, Any]:
    """A spec whose handler or Spark program, in an image of the user, has one input."""
    spark = spec_with("spark.application.image", USER_IMAGE, SPARK)
    return spec_with(field.removeprefix("spec."), [item], SPEC | spark | {"processing": HANDLER})


def naming(field: str, secret: str) -> dict[str, Any]:
    """A spec in which one field names this Secret."""
    part, authentication = FIELDS[field]
    reference = {"name": secret, "key": "key.pem"}
    if authentication:
        return SPEC | {part: SPEC[part] | {authentication: {"connectionStringSecretRef": reference}}}
    if part == "notices":
        notices = {"url": "https://hooks.example/files", "authentication": {"headerSecretRef": reference}}
        return SPEC | {"sink": SPEC["sink"] | {"notices": notices}}
    if part == "registry":
        signs_in = {"basicSecretRef": reference}
        registry = {"type": "Confluent", "url": "https://registry.example", "authentication": signs_in}
        return spec_with("spark.output.body", {"type": "Avro", "registry": registry}, SPEC | SPARK)
    if part in ("processing", "spark"):
        return with_input(field, input_from(field.rpartition(".")[2], "secret", secret))
    return SPEC | {part: {"url": "http://proxy.example:3128", "credentialsSecretRef": reference}}


def refusal(spec: dict[str, Any], settings: Settings) -> SpecError | None:
    try:
        make_plan(observed(spec), settings)
    except SpecError as error:
        return error
    return None


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("secret", ["fleet", "registry", "sh.helm.release.v1.eventconsumer.v1"])
def test_secrets_of_the_operators_installation_are_refused(field: str, secret: str) -> None:
    error = refusal(naming(field, secret), OWN)
    assert error is not None and error.field == field
    assert f"{secret} is reserved for the operator's own installation: use another Secret" in str(error)
    assert refusal(naming(field, f"{secret}-of-a-user".removeprefix("sh.helm.release.v1.")), OWN) is None


@pytest.mark.parametrize("field", FIELDS)
def test_names_have_one_of_the_allowed_prefixes(field: str) -> None:
    spec = naming(field, "other")
    assert refusal(spec, PROXIED) is None, "an empty list allows all"
    limited = replace(PROXIED, secret_name_prefixes=("eventconsumer-", "s"))  # the other fields name the Secret s
    error = refusal(spec, limited)
    assert error is not None and error.field == field
    assert "other is not allowed: use a Secret whose name starts with one of eventconsumer-, s" in str(error)
    assert "administrator to extend secretNamePrefixes" in str(error)
    assert refusal(naming(field, "eventconsumer-x"), limited) is None


@pytest.mark.parametrize("part", ["spec.processing", "spec.spark.application"])
@pytest.mark.parametrize("field", ["env", "envFrom", "volumes"])
def test_config_maps_have_one_of_the_allowed_prefixes_and_are_none_of_hosts(field: str, part: str) -> None:
    def of(name: str) -> dict[str, Any]:
        return with_input(f"{part}.{field}", input_from(field, "configMap", name))

    limited = replace(SETTINGS, config_map_name_prefixes=("shop-", "app"), secret_name_prefixes=("s",))
    assert refusal(of("other"), SETTINGS) is None, "an empty list allows all"
    assert refusal(of("shop-orders"), limited) is None
    error = refusal(of("other"), limited)
    assert error is not None and error.field == f"{part}.{field}"
    assert "other is not allowed: use a ConfigMap whose name starts with one of shop-, app" in str(error)
    assert "administrator to extend configMapNamePrefixes" in str(error)
    error = refusal(of("payments-host"), SETTINGS)
    assert error is not None and "payments-host has the name of a ConfigMap of hosts: use" in str(error)


@pytest.mark.parametrize(
    ("field", "item", "message"),
    [
        (
            "env",
            {"name": "LD_PRELOAD", "value": "/mnt/a/x.so"},
            "LD_PRELOAD does not begin with an allowed prefix",
        ),
        (
            "env",
            {"name": "app_mode", "value": "x"},
            "an allowed prefix (APP_): use another name, or",
        ),
        (
            "env",
            {"name": "APP_MODE", "value": "$(POD_UID)"},
            "APP_MODE has a value with $(, which would refer",
        ),
        (
            "envFrom",
            {"prefix": "APP", "configMapRef": {"name": "a"}},
            "APP does not begin with an allowed prefix",
        ),
        ("envFrom", {"prefix": "PYTHON_", "configMapRef": {"name": "a"}}, "administrator to extend envPrefixes"),
        ("volumes", {"mountPath": "/mnt/a"}, "/mnt/a: set exactly one of configMap and secret"),
    ],
)
def test_the_operator_refuses_what_a_schema_of_another_version_lets_through(
    field: str, item: dict[str, Any], message: str
) -> None:
    for part in ("spec.processing", "spec.spark.application"):
        error = refusal(with_input(f"{part}.{field}", item), SETTINGS)
        assert error is not None and error.field == f"{part}.{field}"
        assert message in str(error)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("processing.handler", "shop:Shop"),
        *(
            (f"{part}.{field}", [input_from(field, "secret", "s")])
            for part in ("processing", "spark.application")
            for field in ("env", "envFrom", "volumes")
        ),
        ("processing.egress", [{"to": [{"podSelector": {}}], "ports": [{"port": 1}]}]),
    ],
)
def test_what_is_for_an_image_of_the_user_is_refused_without_one(path: str, value: Any) -> None:
    error = refusal(spec_with(path, value, SPEC | SPARK), SETTINGS)
    part = path.rpartition(".")[0]
    assert error is not None and error.field == f"spec.{path}"
    assert f"is for an image of your own: set {part}.image to an image that" in str(error)
    unallowed = spec_with(f"{part}.image", "evil.example/x", with_input(f"spec.{path}", {}))
    assert str(refusal(spec_with(path, value, unallowed), SETTINGS)).startswith(f"spec.{part}.image: ")
    allowed = spec_with(f"{part}.image", USER_IMAGE, with_input(f"spec.{path}", {}))
    assert refusal(spec_with(path, value, allowed), SETTINGS) is None


def test_the_administrator_allows_other_prefixes_of_variables() -> None:
    spec = with_input("spec.processing.env", {"name": "SHOP_MODE", "value": "x"})
    assert refusal(spec, SETTINGS) is not None
    assert refusal(spec, replace(SETTINGS, env_prefixes=("SHOP_",))) is None
    assert refusal(spec, replace(SETTINGS, env_prefixes=("SHOP_MODE_",))) is not None
