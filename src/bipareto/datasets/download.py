"""Downloads into the cache: mirrors in turn, bounded in size and time, kept only with the right checksum."""

import socket
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bipareto.datasets.files import File, Source, absent, given_folder, inside, intact
from bipareto.errors import message

# Seconds: for a mirror to accept a connection, and for its next bytes to come; bytes per second below which it is given up.
ANSWER, STALL, RATE = 0.6, 5.0, 20_000


def published(source: Source, path: Any = None) -> list[Path]:
    """Every file of a source: from the folder that was given, else from the cache, else downloaded into it."""
    folder = given_folder(source.name, path)
    places = [inside(folder, file) for file in source.files]
    missing = [file for file, place in zip(source.files, places, strict=True) if place is None]
    if path is not None and missing:
        raise absent(missing[0], source, "no such file", Path(path))
    fetched = dict(zip(missing, _cached(source, missing) if missing else [], strict=True))
    return [place or fetched[file] for file, place in zip(source.files, places, strict=True)]


def _cached(source: Source, files: list[File]) -> list[Path]:
    try:
        import pooch
    except ImportError:
        remedy = "run: pip install 'bipareto[data]', or set BIPARETO_DATA to a folder with the files"
        text = message("pooch", f"be installed to download {source.name}", "no such package", remedy)
        raise ModuleNotFoundError(text) from None
    cache = Path(pooch.os_cache("bipareto")) / source.name
    wanted = [file for file in files if not intact(cache / file.name, file)]
    if wanted:
        mirrors, failures = _answering(source.mirrors)
        for file in wanted:
            _fetch(file, source, cache, mirrors, failures)
    return [cache / file.name for file in files]


def _fetch(file: File, source: Source, cache: Path, mirrors: list[str], failures: list[str]) -> None:
    import pooch
    import urllib3

    failures = list(failures)
    for mirror in mirrors:
        try:
            pooch.retrieve(mirror + file.name, f"sha256:{file.sha256}", file.name, cache, downloader=_downloader(file))
            return
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            failures.append(f"{mirror}: {' '.join(str(error).split())}")
    raise absent(file, source, f"no such file, and no mirror gave it ({', '.join(failures)})", cache)


def _downloader(file: File) -> Callable:
    def download(url: str, output_file: str, _: Any) -> None:
        import requests

        # Bytes as published: of a .gz that a server labels as its encoding, requests would hand over the inside.
        headers = {"Accept-Encoding": "identity"}
        with requests.get(url, stream=True, timeout=STALL, headers=headers) as response, open(output_file, "wb") as output:
            response.raise_for_status()
            began, size = time.monotonic(), 0
            # One arrival at a time: waiting for whole blocks, a trickle would hold us for hours.
            while chunk := response.raw.read1(2**16, decode_content=False):
                size += output.write(chunk)
                if size > file.size:
                    raise OSError(f"more than the {file.size} bytes with sha256 {file.sha256}")
                if size < RATE * (time.monotonic() - began - STALL):
                    raise TimeoutError(f"slower than {RATE} bytes per second")

    return download


def _answering(mirrors: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The mirrors that accept a connection in time, and what the others did.

    All are asked at once and left alone when time is up: the lookup of a name can block for long and knows no timeout.
    """
    outcomes = dict.fromkeys(mirrors, f"no answer in {ANSWER} s")

    def ask(mirror: str) -> None:
        try:
            socket.create_connection(_host(mirror), timeout=ANSWER).close()
            outcomes[mirror] = ""
        except OSError as error:
            outcomes[mirror] = str(error)

    threads = [threading.Thread(target=ask, args=(mirror,), daemon=True) for mirror in mirrors]
    deadline = time.monotonic() + ANSWER
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    found = dict(outcomes)
    return [m for m in mirrors if not found[m]], [f"{m}: {found[m]}" for m in mirrors if found[m]]


def _host(url: str) -> tuple[str, int]:
    """Where a connection for this address goes: its host, or the proxy before it."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
