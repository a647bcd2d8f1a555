"""Objects that pods share: an account without a token, and a volume for what engines download."""

from collections.abc import Iterator
from typing import Any

from cascadia.render.kubernetes.containers import given
from cascadia.render.kubernetes.release import Release


def shared(release: Release) -> Iterator[dict[str, Any]]:
    annotations = given(annotations=release.values["serviceAccount"]["annotations"])
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": release.metadata("", "shared", **annotations),
        "automountServiceAccountToken": False,
    }
    cache = release.values["engines"]["cache"]
    if cache["kind"] == "claim":
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            # Downloads outlive a release that is taken away.
            "metadata": release.metadata("cache", "shared", annotations={"helm.sh/resource-policy": "keep"}),
            "spec": claim(cache),
        }


def claim(cache: dict[str, Any]) -> dict[str, Any]:
    """A volume for downloads, of the size that `engines.cache` says."""
    return {
        "accessModes": [cache["accessMode"]],
        **given(storageClassName=cache["storageClassName"]),
        "resources": {"requests": {"storage": cache["size"] or "1Ti"}},
    }
