"""Model files from the Hugging Face hub, with its own client."""

import shutil
from importlib import import_module
from pathlib import Path

from cascadia.clients.hub.catalogue import HubFile, ModelFile
from cascadia.clients.hub.source import Tell, Unavailable, watched

REACH_S = 4.0
"""A hub that says nothing for so long is not reached."""
_SHA256_DIGITS = 64


def from_hub(missing: list[ModelFile], folder: Path, tell: Tell) -> None:
    """Writes NAME.partial for each missing file. A large file with another hash is refused before it is downloaded."""
    try:
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise Unavailable("huggingface_hub is not installed") from None
    disable_progress_bars()
    before_bytes = 0
    for file in missing:
        if file.hub is None:
            raise Unavailable(f"{file.name} is not there")
        staging = folder / ".hub"
        with watched(staging, tell, before_bytes, file.bytes):
            path = _download(file, file.hub, staging)
        path.replace(folder / f"{file.name}.partial")
        shutil.rmtree(staging)
        before_bytes += file.bytes


def _transport_errors() -> tuple[type[Exception], ...]:
    """Errors of the HTTP client that the hub's own client uses: httpx2 from its second major version on."""
    import httpx

    try:
        newer = import_module("httpx2")
    except ImportError:
        return (httpx.HTTPError,)
    return httpx.HTTPError, newer.HTTPError


def _download(file: ModelFile, source: HubFile, staging: Path) -> Path:
    """An interrupted download goes on where it stopped; so its folder stays."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    unreachable: tuple[type[Exception], ...] = (*_transport_errors(), LocalEntryNotFoundError, OSError)
    repository, name, revision = source.repository, source.file, source.revision
    try:
        address = hf_hub_url(repository, name, revision=revision)
        there = get_hf_file_metadata(address, timeout=REACH_S)
        if there.etag and len(there.etag) == _SHA256_DIGITS and there.etag != file.sha256:
            raise Unavailable(f"{source.repository} has another {source.file}")
        return Path(hf_hub_download(repository, name, revision=revision, local_dir=staging))
    except ImportError:
        raise Unavailable("cannot be asked through a SOCKS proxy (ALL_PROXY)") from None
    except OfflineModeIsEnabled:
        raise Unavailable("is switched off (HF_HUB_OFFLINE)") from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "nothing"
        raise Unavailable(f"{source.repository} answers {status}") from None
    except unreachable as error:
        raise Unavailable(f"cannot be reached ({type(error).__name__})") from None
