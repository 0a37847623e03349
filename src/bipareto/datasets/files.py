"""Published files: where they may lie, and that they are what was published."""

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

from bipareto.errors import message


class File(NamedTuple):
    """A published file; wherever it lies, its bytes must have this checksum."""

    name: str
    size: int
    sha256: str


class Source(NamedTuple):
    """A data set: its folder's name, its files, and the addresses of the folders they are published in."""

    name: str
    files: tuple[File, ...]
    mirrors: tuple[str, ...]


def is_npz(path: Any) -> bool:
    """Whether a user's `path` is an .npz file; otherwise it is None or a folder."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise TypeError(message("path", "be a folder or an .npz file", repr(path), "pass a str or a pathlib.Path"))
    return path is not None and Path(path).suffix == ".npz"


def given_folder(name: str, path: Any) -> Path | None:
    """The folder to look in before the cache: `path`, or `name` inside BIPARETO_DATA."""
    if path is not None:
        return _folder("path", Path(path), "pass a folder with the published files, or an .npz file")
    root = os.environ.get("BIPARETO_DATA")
    if not root:
        return None
    return _folder("BIPARETO_DATA", Path(root), "set it to a folder that holds mnist and fc100, or unset it") / name


def inside(folder: Path | None, file: File) -> Path | None:
    """The verified file in a folder; None where it is not there."""
    place = None if folder is None else folder / file.name
    if place is None or not place.exists():
        return None
    if not intact(place, file):
        remedy = "fetch it again, or pass data of your own as an .npz with `images` and `labels`"
        raise ValueError(message(str(place), f"have the sha256 {file.sha256}", "other bytes", remedy))
    return place


def intact(place: Path, file: File) -> bool:
    if not place.is_file() or place.stat().st_size != file.size:
        return False
    with place.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def absent(file: File, source: Source, found: str, place: Path) -> FileNotFoundError:
    remedy = f"put the file with sha256 {file.sha256} there, or in {source.name} under the folder BIPARETO_DATA"
    return FileNotFoundError(message(file.name, f"be in {place}", found, remedy))


def _folder(parameter: str, folder: Path, remedy: str) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError(message(parameter, "be an existing folder", str(folder), remedy))
    return folder
