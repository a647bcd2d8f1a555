"""Replicas behind one name (`resolve: dns`): each address that DNS gives for it is a replica of its own.

So a pod of a Kubernetes headless Service has its own health, breaker, load and drain. DNS is asked, not the API server:
that needs no rights and no token in a process that faces clients, and works for compose and any other DNS. Its price is
that an address may be told for as long as the zone's records are kept (30 s with Kubernetes' usual CoreDNS) after its
pod began to stop.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from urllib.parse import urlsplit

from cascadia.router.settings.each_stage import each_stage, with_each_stage
from cascadia.router.settings.model import ReplicaSettings, RouterSettings, StageSettings

Addresses = Mapping[str, tuple[str, ...]]
"""By host name, sorted."""


def names_of(settings: RouterSettings) -> frozenset[str]:
    """The names that DNS is to be asked for."""
    replicas = (replica for stage in each_stage(settings) for replica in stage.replicas)
    return frozenset(_host(replica) for replica in replicas if replica.resolve is not None)


def resolved(settings: RouterSettings, known: Addresses) -> RouterSettings:
    """`settings` with a replica an address. A name without any stays one replica, which its health check calls
    starting: requests wait for it."""

    def at_addresses(stage: StageSettings) -> StageSettings:
        replicas = tuple(
            replace(replica, address=address)
            for replica in stage.replicas
            for address in (known.get(_host(replica), (None,)) if replica.resolve else (None,))
        )
        return replace(stage, replicas=replicas)

    return with_each_stage(settings, at_addresses)


def name_at(stage: str, url: str, address: str) -> str:
    """Name of the replica there: the same in every router, whatever came and went before, and it tells no
    address.
    """
    return f"{stage}-{blake2b(f'{url} {address}'.encode(), digest_size=4).hexdigest()}"


def _host(replica: ReplicaSettings) -> str:
    return urlsplit(replica.url).hostname or ""
