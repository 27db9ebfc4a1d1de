"""The plan: the desired objects, as a pure function of the observed state and the settings.

The same input yields the same plan, byte for byte, so a reconcile at rest writes nothing.
"""

from dataclasses import dataclass

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.v1alpha1.status import ScalingStatus
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_operator.plan.config import host_config
from eventconsumer_operator.plan.disruption import disruption_budget
from eventconsumer_operator.plan.egress import check_egress
from eventconsumer_operator.plan.endpoints import check_endpoints
from eventconsumer_operator.plan.hosts import config_map, service, stateful_set
from eventconsumer_operator.plan.network import network_policies, unwanted_policies
from eventconsumer_operator.plan.pods import check_pods
from eventconsumer_operator.plan.probe import is_probing, probe_set, unwanted_probe
from eventconsumer_operator.plan.references import check_references, programs
from eventconsumer_operator.plan.replay import replay_image, replay_job, unwanted_replays
from eventconsumer_operator.plan.scale import Running, running, scaling_of, with_leaving
from eventconsumer_operator.resource.images import host_image
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import ordinals
from eventconsumer_operator.resource.pods import check_memory, run_as
from eventconsumer_operator.resource.programs import check_inputs
from eventconsumer_operator.resource.spec import parse_spec
from eventconsumer_operator.settings import Settings
from eventconsumer_operator.spark.plan import SparkPlan, orphans, spark_plan


@dataclass(frozen=True)
class Plan:
    """The desired state.

    Attributes:
        spec: The validated spec.
        config: Configuration of the hosts.
        image: Image of the hosts.
        scaling: Desired number of hosts, and why.
        running: Number of pods: the desired hosts, and hosts that still hand over partitions.
        applied: Objects to create or correct, in this order.
        spark: Spark's share.
        jobs: Objects to create once: the application of a batch, the Jobs of replays.
        deleted: Live objects to delete.
    """

    spec: EventConsumerSpec
    config: HostConfig
    image: str
    scaling: ScalingStatus
    running: Running
    applied: tuple[Manifest, ...]
    spark: SparkPlan
    jobs: tuple[Manifest, ...]
    deleted: tuple[Manifest, ...]

    @property
    def hosts(self) -> int:
        """Desired number of hosts."""
        return self.scaling.replicas


def make_plan(observed: Observed, settings: Settings, fleet_key: str = "") -> Plan:
    """Make the plan.

    Args:
        observed: The observed state.
        settings: The administrator's settings.
        fleet_key: Public key of the operator for hosts, PEM; empty: hosts get no operator messages.

    Raises:
        SpecError: The spec does not fit the schema, or names an endpoint, a Secret, a ConfigMap, a destination, an
            image, a variable, or a value of pods that the settings forbid, or its buffer does not fit in the memory of
            a host.
    """
    consumer = observed.consumer
    spec = parse_spec(consumer.spec)
    check_endpoints(spec, settings)
    check_references(spec, settings)
    for path, inputs in programs(spec):
        check_inputs(path, inputs, settings)
    check_egress(consumer.key.namespace, spec, settings)
    check_pods(spec, settings)
    check_memory(spec)
    config = host_config(consumer, spec, settings)
    image = host_image(spec, settings)
    scaling = scaling_of(observed, spec)
    run = running(observed, ordinals(scaling.replicas, observed.pods, observed.now))
    account = settings.host_service_account
    spark = spark_plan(observed, spec, config, settings)
    replay = replay_job(observed, spec, config, replay_image(spec, image, settings.processor_image))
    return Plan(
        spec=spec,
        config=config,
        image=image,
        scaling=scaling,
        running=run,
        applied=(
            *network_policies(consumer, spec, settings),
            disruption_budget(observed),
            config_map(consumer, config, fleet_key),
            service(consumer),
            run_as(with_leaving(stateful_set(consumer, spec, config, run.replicas, image), run), account),
            *((run_as(probe_set(observed, spec, config, image), account),) if is_probing(scaling) else ()),
        ),
        spark=spark,
        jobs=tuple(filter(None, (spark.started, spark.reprocess, replay and run_as(replay, account)))),
        deleted=(
            *spark.deleted,
            *orphans(observed, settings),
            *unwanted_replays(observed, spec),
            *unwanted_policies(observed, spec, settings),
            *unwanted_probe(observed, scaling),
        ),
    )
