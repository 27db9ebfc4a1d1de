"""Resolves a spec into the HostConfig that hosts read: defaults filled, names fixed, credentials as paths. Pure."""

from eventconsumer_api.kube.mounts import (
    CHECKPOINT_SECRET,
    HUB_SECRET,
    SINK_SECRET,
    credential,
    notices_config,
    proxy_config,
)
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.wire.host_config import (
    BatchConfig,
    BlobLocation,
    BodyConfig,
    FilesConfig,
    HostConfig,
    HubConfig,
    LeaseConfig,
    LeaseLocation,
)
from eventconsumer_operator.resource.observed import Consumer
from eventconsumer_operator.settings import Settings


def host_config(consumer: Consumer, spec: EventConsumerSpec, settings: Settings) -> HostConfig:
    """The configuration of the hosts."""
    spark = spec.spark if spec.spark and spec.spark.enabled else None
    grace = spec.pods.termination_grace_period_seconds
    return HostConfig(
        resource=consumer.reference,
        event_hub=HubConfig(
            fully_qualified_namespace=spec.event_hub.fully_qualified_namespace,
            name=spec.event_hub.name,
            consumer_group=spec.event_hub.consumer_group,
            credential=credential("spec.eventHub", HUB_SECRET, spec.event_hub.authentication),
            transport=spec.event_hub.transport,
        ),
        leases=LeaseConfig(
            location=LeaseLocation(
                storage_account_url=spec.checkpoint_store.storage_account_url,
                storage_api_version=spec.checkpoint_store.storage_api_version,
                container=spec.checkpoint_store.container,
                prefix=spec.checkpoint_store.prefix,
                credential=credential("spec.checkpointStore", CHECKPOINT_SECRET, spec.checkpoint_store.authentication),
            ),
            layout=spec.checkpoint_store.layout,
            dialect=spec.checkpoint_store.dialect,
            shared=spec.checkpoint_store.shared,
            duration_seconds=spec.checkpoint_store.lease_duration_seconds,
        ),
        starting_position=spec.starting_position,
        processing=spec.processing.for_hosts(),
        sink=BlobLocation(
            storage_account_url=spec.sink.storage_account_url,
            storage_api_version=spec.sink.storage_api_version,
            container=spec.sink.container,
            prefix=spec.sink.prefix.rstrip("/") or f"{consumer.key.namespace}/{consumer.key.name}",
            credential=credential("spec.sink", SINK_SECRET, spec.sink.authentication),
        ),
        files=FilesConfig(format=spec.sink.format, layout=spec.sink.layout, empty_files=spec.sink.empty_files),
        body=BodyConfig.of(spec.sink.body.body_columns()) if spec.sink.body else None,
        roll=spec.sink.roll,
        table=spec.sink.table,
        notices=notices_config(spec.sink.notices),
        retention=spec.sink.retention,
        batches=BatchConfig(trigger=spark.trigger, limits=spark.batch) if spark else None,
        proxy=proxy_config(spec.proxy),
        # The kubelet kills the pod after the grace period: end a tenth of it earlier, at least 2 seconds.
        drain_seconds=grace - max(2, grace // 10),
        allow_insecure_endpoints=settings.allow_insecure_endpoints,
        hub_suffixes=settings.hub_suffixes,
        storage_suffixes=settings.storage_suffixes,
    )
