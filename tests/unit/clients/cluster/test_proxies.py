"""A cluster beside proxies of the environment."""

from pathlib import Path

import pytest

from cascadia.clients.cluster.kubernetes_api import KubernetesApi
from cascadia.domain.errors import BadInput

CONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
"""


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "gopher://127.0.0.1:9"])
def test_a_proxy_that_cannot_be_asked_is_named(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    (tmp_path / "config").write_text(CONFIG)
    with pytest.raises(BadInput, match="ALL_PROXY: names a proxy of a kind that is not asked here"):
        KubernetesApi(kubeconfig=str(tmp_path / "config"))
