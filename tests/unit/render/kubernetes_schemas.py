"""Kubernetes' own schemas. The library reads a version's two megabytes anew for each object; here once in a process."""

from functools import cache

from kubernetes_validate import utils, validate

__all__ = ["validate"]

utils.schema_contents = cache(utils.schema_contents)
