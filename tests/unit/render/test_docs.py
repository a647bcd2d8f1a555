import csv
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


def test_the_page_of_engines_lists_every_image_and_the_data_every_gpu() -> None:
    assert all(f"`{image}`" in PAGE for image in IMAGE.values())
    with (ROOT / "docs" / "reference" / "data" / "gpus.csv").open(encoding="utf-8", newline="") as file:
        listed = {row["name"]: (row["node_label"], row["product"]) for row in csv.DictReader(file)}
    assert {name: (node.label, node.product) for name, node in GPU_NODES.items()}.items() <= listed.items()
