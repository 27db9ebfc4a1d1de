"""The epoch rules: which readers of a partition stay attached. Pure.

Within a consumer group a partition has either one exclusive reader (with an epoch) or up to five without:

    newcomer      present readers          result
    epoch n       epoch > n                the newcomer is refused
    epoch n       epoch <= n               the present reader is displaced (also if equal)
    epoch n       without epoch            all of them are displaced
    no epoch      an epoch                 the newcomer is refused
    no epoch      five without             the newcomer is refused

The epoch of a detached reader has no effect. Conditions and texts are the same as in Event Hubs.
"""

from collections.abc import Sequence

from .errors import LinkFailed

STOLEN = "amqp:link:stolen"
MAX_NON_EPOCH_READERS = 5
UNNAMED = "nil"


def displaced_by(
    newcomer: int | None, present: Sequence[int | None], name: str = "", names: Sequence[str] = ()
) -> list[LinkFailed]:
    """Applies the rules.

    Args:
        newcomer: the epoch of the attaching reader; None without.
        present: the epochs of the readers of the same partition and group.
        name: the newcomer's `com.microsoft:receiver-name`, for the texts; empty: none.
        names: those of the present readers, in their order; left out: none has one.

    Returns:
        The detach errors of the present readers, in their order; empty if they stay.

    Raises:
        LinkFailed: the newcomer is refused.
    """
    known = [each or UNNAMED for each in (names or [""] * len(present))]
    name = name or UNNAMED
    highest = max((epoch for epoch in present if epoch is not None), default=None)
    if newcomer is None:
        if highest is not None:
            raise LinkFailed(
                STOLEN,
                f"At least one receiver for the endpoint is created with epoch of '{highest}', and so non-epoch "
                "receiver is not allowed. Either reconnect with a higher epoch, or make sure all epoch receivers are "
                "closed or disconnected.",
            )
        if len(present) >= MAX_NON_EPOCH_READERS:
            raise LinkFailed(
                "amqp:resource-limit-exceeded",
                "Exceeded the maximum number of allowed receivers per partition in a consumer group which is "
                f"{MAX_NON_EPOCH_READERS}.",
            )
        return []
    if highest is not None and highest > newcomer:
        raise LinkFailed(
            STOLEN,
            f"Receiver '{known[present.index(highest)]}' with a higher epoch '{highest}' already exists. Receiver "
            f"'{name}' with epoch {newcomer} cannot be created. Make sure you are creating receiver with increasing "
            "epoch value to ensure connectivity, or ensure all old epoch receivers are closed or disconnected.",
        )
    return [
        LinkFailed(
            STOLEN,
            f"New receiver '{name}' with higher epoch of '{newcomer}' is created hence current receiver '{other}' with "
            f"epoch '{'none' if epoch is None else epoch}' is getting disconnected. If you are recreating the "
            "receiver, make sure a higher epoch is used.",
        )
        for epoch, other in zip(present, known, strict=True)
    ]
