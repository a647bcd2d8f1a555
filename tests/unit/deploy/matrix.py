"""Values to render the chart with: plans of all kinds, and each switch of the chart both ways."""

from dataclasses import dataclass, replace
from typing import Any

import yaml

from cascadia.domain.cluster import Cluster, Pool
from cascadia.domain.gear import Gear
from cascadia.domain.plan import ExitPlan, ExitPromise, JudgePlan, LatencyLine, Plan, ReplicaGroup
from cascadia.render import render
from cascadia.render.kubernetes.chart_values import merged
from cascadia.testing.plans import FRONTIER_API, POOLS, plan, stage, three_stages

Values = dict[str, Any]
ONE = ReplicaGroup("h100", 1, 1, 1, 1.0)
ELSEWHERE = JudgePlan(
    "llm", "external", "org/judge", engine="vllm", quantization=None, max_model_len=4096, replicas=()
)
EMBEDDING = JudgePlan(
    "embedding", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
)
CERTAINTY = JudgePlan(
    "certainty", "router", None, engine="vllm", quantization=None, max_model_len=0, replicas=()
)

AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]},
                {"matchExpressions": [{"key": "site", "operator": "Exists"}]},
            ]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": {"matchExpressions": [{"key": "new", "operator": "Exists"}]}}
        ],
    },
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 5,
                "podAffinityTerm": {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}},
            }
        ]
    },
}
OURS: Values = {
    "podAnnotations": {"a": "on"},
    "podLabels": {"team": "chat"},
    "nodeSelector": {"pool": "cpu"},
    "affinity": AFFINITY,
    "tolerations": [{"key": "cpu", "operator": "Exists"}],
    "priorityClassName": "high",
    "podSecurityContext": {"fsGroup": 2000},
    "securityContext": {"readOnlyRootFilesystem": False},
}

OPERATOR = ("monitoring.coreos.com/v1", "monitoring.coreos.com/v1/PrometheusRule")


@dataclass(frozen=True, slots=True)
class Case:
    values: Values
    release: str = "cascadia"
    namespace: str = "cascadia"
    more_apis: tuple[str, ...] = ()


def values_of(found: Plan) -> Values:
    loaded: Values = yaml.safe_load(render(found, found.cluster, "helm-values"))
    return loaded


GEARS: list[Values] = [
    {"max_in_flight": 24.5, "stages": ["small", "large"], "thresholds": {"small": 40}, "skip_below": {}},
    {"max_in_flight": None, "stages": ["small"]},
]


LEARNT = replace(ONE, latency=LatencyLine(0.125, 0.0005, 0.0225, 0.00008))


def _two(judge: JudgePlan) -> Values:
    return values_of(plan([stage("small", ONE), stage("large", ONE)], POOLS, judge))


def _thinking(promise: ExitPromise) -> Values:
    at = (ExitPlan(512, 80.0, 0.4), ExitPlan(2048, 62.5, 0.2, last=True))
    made = plan([stage("thinker", ONE, exits=at), stage("large", ONE)], POOLS, CERTAINTY)
    return values_of(replace(made, exits=promise))


API = replace(FRONTIER_API, requests_per_minute=605)
THREE = values_of(three_stages())
FRONTIER = values_of(
    plan([stage("small", ONE), stage("frontier", model="any-name", external=API)], POOLS, CERTAINTY)
)
BURSTS = (
    Gear(24.0, 8.0, ("small", "large", "frontier"), (40.0, 60.0)),
    Gear(None, None, ("small", "frontier"), (55.0, 0.0)),
)
"""Under much load all that the small model does not answer goes to the API."""
MI = Cluster((Pool("mi", "mi300x", 1, 8, 2.0),))


def _with(over: Values, base: Values = THREE) -> Values:
    return merged(base, over)


MATRIX: dict[str, Case] = {
    "three stages": Case(THREE),
    "gears": Case(_with({"cascade": {"gears": GEARS, "underLoad": {"then": "refuse"}}})),
    "unequal replicas that are learnt": Case(
        values_of(
            plan([stage("small", LEARNT, balancing="earliest-finish"), stage("large", ONE)], POOLS, CERTAINTY)
        )
    ),
    "exits that are certified": Case(_thinking(ExitPromise(0.01, 0.9, 0.1))),
    "exits of odd promises": Case(_thinking(ExitPromise(1e-7, 0.999999, 1.0))),
    "one stage": Case(values_of(plan([stage("only", ONE)], POOLS))),
    "a stage left out": Case(
        values_of(plan([stage("a"), stage("b", ONE), stage("c", ONE)], POOLS, CERTAINTY))
    ),
    "names that are ours": Case(
        values_of(
            plan(
                [stage(n, ONE) for n in ("router", "engines", "default", "controller-state")],
                POOLS,
                CERTAINTY,
            )
        )
    ),
    "names that YAML takes for values": Case(
        values_of(plan([stage(n, ONE) for n in ("on", "1e3", "0x1f", "null")], POOLS, CERTAINTY))
    ),
    "a model by path": Case(values_of(plan([stage("s", ONE, model="../models/mine/config.json")], POOLS))),
    "amd": Case(values_of(plan([stage("s", ReplicaGroup("mi", 8, 1, 1, 1.0))], MI))),
    "another release": Case(THREE, release="b.lue", namespace="team-a"),
    "a long release name": Case(THREE, release="a-release-with-a-name-as-long-as-helm-takes-it-abcdef"),
    "a name of its own": Case(_with({"fullnameOverride": "llm"})),
    "a stage elsewhere": Case(FRONTIER),
    "gears with a stage elsewhere": Case(
        values_of(
            replace(
                plan(
                    [
                        stage("small", ONE),
                        stage("large", ONE),
                        stage("frontier", model="any-name", external=API),
                    ],
                    POOLS,
                    CERTAINTY,
                ),
                gears=BURSTS,
            )
        )
    ),
    "stages elsewhere, in the middle and without a key": Case(
        _with(
            {"router": {"autoscaling": {"enabled": False}}, "externalKeys": {"secretName": "ours"}},
            values_of(
                plan(
                    [
                        stage("small", ONE),
                        stage("a", model="other", external=replace(API, api_key_env=None)),
                        stage("b", model="third", external=FRONTIER_API),
                        stage("large", ONE),
                    ],
                    POOLS,
                    CERTAINTY,
                )
            ),
        )
    ),
    "certainty": Case(_two(CERTAINTY)),
    "embedding": Case(_two(EMBEDDING)),
    "a stage skipped by the question": Case(
        values_of(
            replace(plan([stage("small", ONE), stage("large", ONE)], POOLS, EMBEDDING), skip_below=(22.5,))
        )
    ),
    "embedding from a claim": Case(
        _with(
            {
                "judge": {
                    "service": {
                        "head": {"claimName": "head"},
                        "env": [{"name": "A", "value": "1"}],
                        "nodeSelector": {"a": "b"},
                    }
                }
            },
            _two(EMBEDDING),
        )
    ),
    "a judge elsewhere": Case(
        _with(
            {"judge": {"url": "https://judge.example", "apiKey": {"secretName": "judge-key"}}},
            _two(ELSEWHERE),
        )
    ),
    "a judge elsewhere without a key": Case(
        _with({"judge": {"url": "http://judge.example:8080"}}, _two(ELSEWHERE))
    ),
    "an embedding judge elsewhere": Case(
        _with({"judge": {"url": "http://heads.example", "apiKey": {"secretName": "key"}}}, _two(EMBEDDING))
    ),
    "an address of a judge that nobody asks": Case(
        _with(
            {"judge": {"url": "http://judge.example"}},
            values_of(plan([stage("only", ONE)], POOLS, ELSEWHERE)),
        )
    ),
    "an address of a judge that has none": Case(
        _with({"judge": {"url": "http://judge.example"}}, _two(CERTAINTY))
    ),
    "tensorrt-llm": Case(
        _with(
            {"monitoring": {"serviceMonitor": {"enabled": "always"}}},
            values_of(
                plan(
                    [stage("small", ONE, engine="trtllm"), stage("large", ONE, engine="trtllm")],
                    POOLS,
                    CERTAINTY,
                )
            ),
        ),
        more_apis=OPERATOR,
    ),
    "keda": Case(_with({"keda": {"enabled": True}})),
    "fixed routers": Case(_with({"router": {"autoscaling": {"enabled": False}, "replicas": 3}})),
    "requests under way": Case(_with({"router": {"autoscaling": {"inFlightPerPod": 200}}})),
    "a router with all": Case(
        _with(
            {
                "imageRegistry": "registry.example/team",
                "imagePullSecrets": ["pull"],
                "serviceAccount": {"annotations": {"cloud.example/role": "models"}},
                "router": {
                    "image": {"tag": "1.2", "digest": "sha256:" + "0f" * 32, "pullPolicy": "Always"},
                    "config": {
                        "limits": {"queue_s": 5, "max_body_bytes": 33554432},
                        "health": {"interval_s": 1},
                    },
                    "secrets": [{"name": "keys", "secretName": "router-keys"}],
                    "env": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://otel:4318"}],
                    "service": {
                        "type": "LoadBalancer",
                        "port": 80,
                        "annotations": {"lb.example/internal": "true"},
                    },
                    "podAnnotations": {"a": "b"},
                    "nodeSelector": {"pool": "cpu"},
                    "tolerations": [{"key": "cpu", "operator": "Exists"}],
                    "priorityClassName": "high",
                    "logRequests": False,
                },
            }
        )
    ),
    "engines with all": Case(
        _with(
            {
                "engines": {
                    "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
                    "podAnnotations": {"a": "b"},
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "priorityClassName": "high",
                    "runtimeClassName": "nvidia",
                    "writablePaths": ["/var/cache", "/opt/x"],
                    "topologyKey": "",
                    "preStopSeconds": 45,
                    "cache": {"size": "200Gi"},
                }
            }
        )
    ),
    "engines with more": Case(
        _with(
            {
                "engines": {
                    "env": [{"name": "HF_HOME", "value": "/elsewhere"}],
                    "podLabels": {"team": "chat"},
                    "nodeSelector": {"fabric": "infiniband"},
                    "affinity": AFFINITY,
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    "podSecurityContext": {"supplementalGroups": [5000]},
                    "extraResources": {"rdma/hca_shared_devices_a": 1},
                    "initContainers": [
                        {
                            "name": "fetch",
                            "image": "example/fetch:1",
                            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                        }
                    ],
                    "volumes": [{"name": "adapters", "persistentVolumeClaim": {"claimName": "adapters"}}],
                    "volumeMounts": [{"name": "adapters", "mountPath": "/adapters", "readOnly": True}],
                }
            }
        )
    ),
    "engines of one stage": Case(
        _with(
            {
                "engines": {
                    "env": [{"name": "A", "value": "all"}],
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "perStage": {
                        "large": {
                            "env": [{"name": "A", "value": "large"}],
                            "tolerations": [{"key": "large", "operator": "Exists"}],
                            "affinity": AFFINITY,
                            "memoryGiPerGpu": 64,
                            "priorityClassName": "high",
                            "securityContext": {"readOnlyRootFilesystem": False},
                            "extraResources": {"rdma/hca_shared_devices_a": "2"},
                            "writablePaths": ["/opt/large"],
                        },
                        "judge": {"nodeSelector": {"a": "b"}, "podAnnotations": {"c": "d"}},
                    },
                }
            }
        )
    ),
    "our services with more": Case(
        _with(
            {
                "router": OURS,
                "judge": {"service": {**OURS, "env": [{"name": "A", "value": "1"}]}},
                "controller": OURS,
            },
            _two(EMBEDDING),
        )
    ),
    "a controller with more": Case(_with({"controller": {"enabled": True, **OURS}})),
    "an ingress": Case(_with({"ingress": {"enabled": True}})),
    "an ingress with all": Case(
        _with(
            {
                "ingress": {
                    "enabled": True,
                    "className": "nginx",
                    "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
                    "hosts": ["llm.example", "*.llm.example"],
                    "paths": ["/v1", "/health"],
                    "tls": {"secretName": "llm-tls"},
                },
                "router": {"service": {"port": 80}},
            }
        )
    ),
    "a route": Case(
        _with({"httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "timeouts": {}}})
    ),
    "a route with all": Case(
        _with(
            {
                "httpRoute": {
                    "enabled": True,
                    "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}],
                    "hostnames": ["llm.example"],
                    "annotations": {"a": "b"},
                    "paths": ["/v1", "/ui"],
                    "timeouts": {"request": "1h", "backendRequest": "30m"},
                }
            }
        )
    ),
    "a claim made here": Case(_with({"engines": {"cache": {"kind": "claim", "storageClassName": "fast"}}})),
    "a claim of yours": Case(
        _with({"engines": {"cache": {"kind": "existingClaim", "claimName": "weights"}}})
    ),
    "a claim a pod": Case(
        _with({"engines": {"cache": {"kind": "ephemeral", "size": "500Gi", "accessMode": "ReadWriteOnce"}}})
    ),
    "no policies": Case(_with({"networkPolicy": {"enabled": False}})),
    "other policies": Case(
        _with(
            {
                "networkPolicy": {
                    "routerFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
                    "metricsFrom": [],
                    "engineEgress": [],
                    "routerEgress": [{"ports": [{"protocol": "TCP", "port": 4318}]}],
                }
            }
        )
    ),
    "prometheus is there": Case(THREE, more_apis=OPERATOR),
    "prometheus without rules": Case(THREE, more_apis=OPERATOR[:1]),
    "a monitor in any case": Case(
        _with(
            {
                "monitoring": {
                    "serviceMonitor": {"enabled": "always", "labels": {"release": "prom"}},
                    "alerts": {
                        "enabled": "always",
                        "labels": {"release": "prom"},
                        "runbookUrl": "https://git.example/cascadia/",
                    },
                }
            }
        )
    ),
    "no monitor and no dashboards": Case(
        _with(
            {
                "monitoring": {
                    "serviceMonitor": {"enabled": "never"},
                    "alerts": {"enabled": "never"},
                    "dashboards": {"enabled": False},
                }
            }
        ),
        more_apis=OPERATOR,
    ),
    "a controller": Case(_with({"controller": {"enabled": True}})),
    "a controller with all": Case(
        _with(
            {
                "controller": {
                    "enabled": True,
                    "args": ["--dry-run"],
                    "spec": {"claimName": "spec"},
                    "samples": {"claimName": "samples"},
                    "settings": {"moves": {"cooldown_s": 3600.0, "least_gain": 0.05, "at_once": 4}},
                },
                "router": {"config": {"limits": {"queue_s": 5}}},
            }
        ),
        namespace="team-a",
    ),
    "a controller that nobody scrapes": Case(
        _with({"controller": {"enabled": True}, "networkPolicy": {"metricsFrom": []}})
    ),
    "a controller that watches nothing": Case(
        _with({"controller": {"enabled": True, "samples": {"secretName": ""}}})
    ),
}
