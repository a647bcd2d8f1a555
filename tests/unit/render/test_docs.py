import json
import re

from cascadia.render.engines import IMAGE
from cascadia.render.gpu_nodes import GPU_NODES
from tests.data import ROOT

PAGE = (ROOT / "docs" / "reference" / "engines.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests" / "golden" / "render" / "processes.json"


def test_the_page_of_engines_lists_every_flag_that_is_written() -> None:
    written = {
        a.partition("=")[0] for p in json.loads(GOLDEN.read_text()) for a in p["argv"] if a.startswith("--")
    }
    listed = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert written <= listed
    assert {"--headless", "--dist-init-addr", "--quantization"} <= written


def test_the_page_of_engines_lists_every_image_and_gpu() -> None:
    assert all(f"`{image}`" in PAGE for image in IMAGE.values())
    for name, node in GPU_NODES.items():
        listed = PAGE.partition(f"Node label `{node.label}`:\n\n")[2].partition("\n")[0]
        assert f"`{name}` `{node.product}`" in listed
