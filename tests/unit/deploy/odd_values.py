"""Values that users write by mistake, or that YAML reads as something else. Each makes valid objects, or is refused."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from cascadia.render.kubernetes.chart_values import merged
from cascadia.testing.plans import POOLS, plan, stage
from tests.unit.deploy.matrix import EMBEDDING, ONE, OPERATOR, THREE, Case, values_of

Values = dict[str, Any]
LONG = "a-name-that-is-much-longer-than-any-label-of-kubernetes-may-be-of-them-all"
TRAPS = ("on", "no", "null", "true", "123", "1e3", "0x1f", "1.5", "2001-01-01", "0b1")
"""Names that are right, and that YAML takes for something else where they stand bare."""


@dataclass(frozen=True, slots=True)
class Odd:
    """`renders` is None where either will do, as versions of Helm differ."""

    case: Case
    renders: bool


def at(path: str, value: Any) -> Values:
    """{"a": {"b": value}} for "a.b"."""
    for key in reversed(path.split(".")):
        value = {key: value}
    found: Values = value
    return found


def without(base: Values, path: str) -> Values:
    """As `--set a.b=null` has it: who merges these values takes the member away, of the defaults too."""
    first, _, rest = path.partition(".")
    own = base.get(first)
    return {**base, first: without(own if isinstance(own, dict) else {}, rest) if rest else None}


def _under(base: Values, path: str, value: Any) -> Case:
    return Case(merged(base, at(path, value)))


def _stage(**over: Any) -> Values:
    stages = [{**found, **over} if i == 0 else found for i, found in enumerate(THREE["stages"])]
    return {**THREE, "stages": stages}


def _group(**over: Any) -> Values:
    groups = THREE["stages"][0]["groups"]
    return _stage(groups=[{**groups[0], **over}, *groups[1:]])


SERVICE = values_of(plan([stage("small", ONE), stage("large", ONE)], POOLS, EMBEDDING))
SECRET = [{"name": "keys", "secretName": "a"}]
NAMES = (
    "router.priorityClassName",
    "engines.priorityClassName",
    "engines.runtimeClassName",
    "engines.modelsClaimName",
    "huggingFaceToken.secretName",
    "huggingFaceToken.secretKey",
)
KEPT_TRAPS = ("on", "123", "1e3", "true")


def _right() -> Iterator[tuple[str, Case]]:
    for trap in TRAPS:
        yield f"release {trap}", Case(THREE, release=trap)
        if "." not in trap:
            yield f"namespace {trap}", Case(THREE, namespace=trap)
    for path in NAMES:
        for trap in KEPT_TRAPS:
            yield f"{path}: {trap}", _under(THREE, path, trap)
    for trap in KEPT_TRAPS:
        yield f"pull secret {trap}", _under(THREE, "imagePullSecrets", [trap])
        secrets = [{"name": trap, "secretName": trap}]
        yield f"router.secrets: {trap}", _under(THREE, "router.secrets", secrets)
        cache = {"kind": "existingClaim", "claimName": trap}
        yield f"engines.cache.claimName: {trap}", _under(THREE, "engines.cache", cache)
        cache = {"kind": "claim", "storageClassName": trap, "size": "10"}
        yield f"engines.cache.storageClassName: {trap}", _under(THREE, "engines.cache", cache)
        over = {"enabled": True, "spec": {"claimName": trap}, "samples": {"claimName": trap}}
        yield f"controller: claims {trap}", _under(THREE, "controller", over)
        over = {"enabled": True, "spec": {"configMapName": trap}, "samples": {"secretName": trap}}
        yield f"controller: names {trap}", _under(THREE, "controller", over)
        over = {"head": {"claimName": trap}, "priorityClassName": trap}
        yield f"judge.service: {trap}", _under(SERVICE, "judge.service", over)
        yield f"judge.apiKey: {trap}", _under(THREE, "judge.apiKey", {"secretName": trap, "secretKey": trap})
        yield f"router.image.tag: {trap}", _under(THREE, "router.image.tag", trap)
        yield f"router.nodeSelector: {trap}", _under(THREE, "router.nodeSelector", {trap: trap})
        yield f"engines.podAnnotations: {trap}", _under(THREE, "engines.podAnnotations", {trap: trap})
        yield f"engines.topologyKey: {trap}", _under(THREE, "engines.topologyKey", trap)
        yield f"engineVersion {trap}", Case(_stage(engineVersion=trap))
        yield f"stage {trap}", Case(_stage(name=f"{trap.replace('.', '-')}", servedModelName=trap))
        yield f"group image {trap}", Case(_group(image=trap))
        yield f"gpuProducts {trap}", Case(_group(gpuProducts=[trap]))
        yield f"args {trap}", Case(_group(args=[trap, ""]))
    yield "pool 123", Case(_group(pool="123"))
    yield "digest 123", _under(THREE, "plan.digest", "123")
    yield "release that begins with a digit", Case(THREE, release="7b-models")
    yield "release with dots", Case(THREE, release="a.b.c")
    yield "whole numbers with a point", _under(THREE, "router", {"replicas": 2.0, "drainSeconds": 60.0})
    yield (
        "numbers as quantities",
        _under(THREE, "router.resources", {"requests": {"cpu": 1, "memory": 10**9}}),
    )
    yield "a large number", _under(THREE, "router.resources.limits.memory", 10**12)
    yield (
        "env twice",
        _under(THREE, "router.env", [{"name": "A", "value": "1"}, {"name": "A", "value": "on"}]),
    )
    yield "env of the chart's", _under(THREE, "engines.env", [{"name": "HF_HOME", "value": "/cache/other"}])
    yield "env that is empty", _under(THREE, "engines.env", [{"name": "A"}])
    yield "null for a default", _under(THREE, "engines.priorityClassName", "")
    yield "one router at most", _under(THREE, "router.autoscaling", {"minReplicas": 1, "maxReplicas": 1})
    yield "an empty affinity", _under(THREE, "engines.affinity", {"nodeAffinity": {}})
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "on", "operator": "Exists"}]}, {}]}
    nodes = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    yield "an affinity with two terms", _under(THREE, "engines.affinity", nodes)
    yield (
        "a stage's engines",
        _under(THREE, "engines.perStage", {"small": {"extraResources": {"rdma/on": 1}}}),
    )
    yield "false over true", _under(THREE, "engines.securityContext", {"readOnlyRootFilesystem": False})
    yield "zero over a default", _under(THREE, "router.config", {"health": {"startup_s": 0}})
    yield (
        "labels that look like numbers",
        Case(
            merged(
                THREE,
                at(
                    "monitoring.serviceMonitor",
                    {"enabled": "always", "interval": "30s", "labels": {"on": "1"}},
                ),
            ),
            more_apis=OPERATOR,
        ),
    )


def _wrong() -> Iterator[tuple[str, Case]]:
    for space in ("Models", "a.b", "a_b", "-a", LONG):
        yield f"namespace {space}", Case(THREE, namespace=space)
    for name in ("A", "a_b", "-a", "a..b", "größe", "a b", "a\n", "a/b"):
        yield f"priority class {name!r}", _under(THREE, "engines.priorityClassName", name)
    for path in ("imageRegistry", "router.image.repository", "router.image.tag"):
        for text in ("https://a", "a b", "a:b:c", "${X}"):
            yield f"{path} {text}", _under(THREE, path, text)
    for image in ("", "a b", "A/b", "a@sha256:12", "a:"):
        yield f"group image {image!r}", Case(_group(image=image))
    for text in ("lots", "-1", "1 Gi", "1gb", "1e3", ".5", ""):
        yield f"memory {text!r}", _under(THREE, "router.resources.limits.memory", text)
    for path in ("router.replicas", "engines.cpuPerGpu", "controller.replicas", "router.service.port"):
        for number in (0, -1, 1.5, "2", 10**12):
            yield f"{path}: {number!r}", _under(THREE, path, number)
    yield "autoscaling upside down", _under(THREE, "router.autoscaling", {"minReplicas": 9, "maxReplicas": 3})
    yield "more memory than the limit", _under(THREE, "engines.memoryGiPerGpu", 256)
    asked = {"requests": {"memory": "3Gi"}, "limits": {"memory": "2Gi"}}
    yield "router: memory above the limit", _under(THREE, "router.resources", asked)
    yield "router: cpu above the limit", _under(THREE, "router.resources", {"requests": {"cpu": "2500m"}})
    yield "judge: memory above the limit", _under(SERVICE, "judge.service.resources", asked)
    yield "a device without its limit", _under(THREE, "router.resources.requests", {"nvidia.com/gpu": "1"})
    for path in ("/cache", "/tmp/", "/dev/shm"):
        yield f"writable {path}", _under(THREE, "engines.writablePaths", [path])
    yield "a path twice", _under(THREE, "engines.writablePaths", ["/a", "/a/"])
    yield "a relative path", _under(THREE, "engines.writablePaths", ["a"])
    yield "a path with a colon", _under(THREE, "engines.writablePaths", ["/a:b"])
    yield "the root", _under(THREE, "engines.writablePaths", ["/"])
    yield "a secret twice", _under(THREE, "router.secrets", [*SECRET, *SECRET])
    for name in ("on.off", "Keys", ""):
        yield f"a secret called {name!r}", _under(THREE, "router.secrets", [{**SECRET[0], "name": name}])
    volume = {"name": "a", "emptyDir": {}}
    yield "a volume twice", _under(THREE, "engines.volumes", [volume, volume])
    yield "a volume of the chart's name", _under(THREE, "engines.volumes", [{**volume, "name": "cache"}])
    yield "a volume of two sources", _under(THREE, "engines.volumes", [{**volume, "hostPath": {"path": "/"}}])
    yield "a volume of none", _under(THREE, "engines.volumes", [{"name": "a"}])
    yield "a volume of no kind", _under(THREE, "engines.volumes", [{"name": "a", "emptyDirectory": {}}])
    yield "a mount of nothing", _under(THREE, "engines.volumeMounts", [{"name": "a", "mountPath": "/a"}])
    yield (
        "a mount over another",
        _under(THREE, "engines.volumeMounts", [{"name": "tmp", "mountPath": "/cache"}]),
    )
    container = {"name": "a", "image": "b"}
    yield "an init container twice", _under(THREE, "engines.initContainers", [container, container])
    yield "a second engine", _under(THREE, "engines.initContainers", [{**container, "name": "engine"}])
    yield "an init container without an image", _under(THREE, "engines.initContainers", [{"name": "a"}])
    yield "an init container's typo", _under(THREE, "engines.initContainers", [{**container, "comand": []}])
    yield "a toleration's typo", _under(THREE, "engines.tolerations", [{"key": "a", "effects": "NoSchedule"}])
    for effect in ("NoRun", "noschedule"):
        tolerations = [{"key": "a", "operator": "Exists", "effect": effect}]
        yield f"a toleration of {effect}", _under(THREE, "engines.tolerations", tolerations)
    tolerations = [{"key": "a", "operator": "Exists", "value": "b"}]
    yield "a toleration of any value, and one", _under(THREE, "engines.tolerations", tolerations)
    yield "a toleration of nothing", _under(THREE, "engines.tolerations", [{}])
    yield "no digest", Case(without(THREE, "plan.digest"))
    yield "no names of stages", Case(without(THREE, "cascade.stages"))
    yield "a toleration that is null", _under(THREE, "engines.tolerations", [None])
    for name in ("", "a=b", "1A", "a b"):
        yield f"env {name!r}", _under(THREE, "router.env", [{"name": name, "value": "1"}])
    yield "env that is a number", _under(THREE, "engines.env", [{"name": "A", "value": 1}])
    yield "env that is on", _under(THREE, "engines.env", [{"name": "A", "value": True}])
    secret = {"secretKeyRef": {"name": "a", "key": "b"}}
    both = [{"name": "A", "value": "1", "valueFrom": secret}]
    yield "env of two sources", _under(THREE, "engines.env", both)
    yield "a label that is a number", _under(THREE, "router.nodeSelector", {"a": 1})
    yield "a label that is long", _under(THREE, "router.nodeSelector", {"a": LONG})
    yield "a label's key", _under(THREE, "router.nodeSelector", {"a b": "c"})
    yield "an annotation that is on", _under(THREE, "engines.podAnnotations", {"a": True})
    yield "a label of the chart's", _under(THREE, "engines.podLabels", {"cascadia/workload": "a"})
    yield "a label of the release's", _under(THREE, "router.podLabels", {"app.kubernetes.io/instance": "a"})
    weighted = [{"weight": 0, "preference": {}}]
    nodes = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    yield "an affinity without weight", _under(THREE, "engines.affinity", nodes)
    yield "an affinity's typo", _under(THREE, "engines.affinity", {"nodeAfinity": {}})
    yield "a security context's typo", _under(THREE, "engines.securityContext", {"privledged": True})
    yield "a device's count", _under(THREE, "engines.extraResources", {"rdma/hca": 0.5})
    yield "a device without a domain", _under(THREE, "engines.extraResources", {"hca": 1})
    yield "GPUs once more", _under(THREE, "engines.extraResources", {"nvidia.com/gpu": 1})
    yield "no such stage", _under(THREE, "engines.perStage", {"lagre": {}})
    yield "no such key of a stage", _under(THREE, "engines.perStage", {"small": {"cache": {}}})
    yield "a stage's memory", _under(THREE, "engines.perStage", {"small": {"memoryLimitGiPerGpu": 1}})
    yield "two stages of one name", Case({**THREE, "stages": [THREE["stages"][0], THREE["stages"][0]]})
    for served in ("a b", "größe", "-a", "$(HOME)", "judge", "foresight", "cascadia", "", "a" * 101):
        yield f"a stage served as {served[:20]!r}", Case(_stage(servedModelName=served))
    yield "two stages served alike", Case(_stage(servedModelName=THREE["stages"][1]["servedModelName"]))
    yield "a stage called router", Case(_stage(name="router"))
    yield "a stage called cache", Case(_stage(name="cache"))
    yield "a group called router", Case(_group(name="router"))
    yield "a group called like another", Case(_group(name=THREE["stages"][1]["groups"][0]["name"]))
    yield "a stage in capitals", Case(_stage(name="Small"))
    yield "a product that is no label", Case(_group(gpuProducts=["NVIDIA H100"]))
    yield "a group without pods", Case(_group(replicas=0))
    yield "an engine's version", Case(_stage(engineVersion="0.32 (nightly)"))
    yield (
        "a controller without a spec",
        _under(THREE, "controller", {"enabled": True, "spec": {"configMapName": ""}}),
    )
    yield "a token without a key", _under(THREE, "controller.samples.secretKey", "")
    yield "a digest", _under(THREE, "router.image.digest", "sha256:12")
    yield "a cache's size", _under(THREE, "engines.cache", {"kind": "claim", "size": "big"})
    for peers in ([{"podSelectors": {}}], [{}], [{"ipBlock": {"cidr": "10.0.0.0"}}]):
        yield f"peers {peers}", _under(THREE, "networkPolicy.routerFrom", peers)
    for port in (0, 70000, "a_b"):
        rules = [{"ports": [{"port": port}]}]
        yield f"a rule for port {port!r}", _under(THREE, "networkPolicy.routerEgress", rules)
    yield (
        "an address of Prometheus",
        _under(THREE, "keda", {"enabled": True, "prometheusAddress": "http://a b"}),
    )
    yield "an interval", _under(THREE, "monitoring.serviceMonitor.interval", "often")
    for config in (
        {"limit": {}},
        {"limits": {"queue_seconds": 5}},
        {"limits": {"queue_s": "five"}},
        {"limits": {"max_queue": -1}},
        {"keys": {}},
        {"judge": {"on_failure": "retry"}},
        {"shadow": {"ratio": 2}},
        {"tracing": {"endpoint": "otel:4318"}},
        {"admin": {"port": 9000}},
        {"port": 70000},
        {"stages": [{"name": "a", "replicas": []}]},
        {"conversations": {"start": "warm"}},
        {"watch_s": -1},
        {"health": {"interval": 1}},
    ):
        yield f"router.config {config}", _under(THREE, "router.config", config)
    yield "a stage's routing", Case(_stage(routing={"balancing": "random"}))
    yield "a stage's hedging", Case(_stage(routing={"hedge": {"quantile": 95}}))
    for section in ("ingress", "httpRoute"):
        name = "hosts" if section == "ingress" else "hostnames"
        for host in ("A.example", "a b", "https://a", "*.*.a"):
            yield f"{section} for {host}", _under(THREE, section, {name: [host]})
        yield f"{section} for a path", _under(THREE, section, {"paths": ["v1"]})
        yield f"{section} for no path", _under(THREE, section, {"paths": []})
    yield "a route without a Gateway", _under(THREE, "httpRoute", {"enabled": True})
    yield "a route's patience", _under(THREE, "httpRoute.timeouts", {"request": "1 minute"})
    yield "a certificate", _under(THREE, "ingress.tls.secretName", "Not A Name")
    yield "no prompt", _under(THREE, "test.prompt", "")


def _all() -> dict[str, Odd]:
    found = {name: Odd(case, True) for name, case in _right()}
    wrong = {name: Odd(case, False) for name, case in _wrong()}
    assert not found.keys() & wrong.keys()
    return found | wrong


ODD = _all()


def without_dashboards(odd: Odd) -> Odd:
    """They are long, and no value is in them."""
    off = {"monitoring": {"dashboards": {"enabled": False}}}
    return replace(odd, case=replace(odd.case, values=merged(odd.case.values, off)))
