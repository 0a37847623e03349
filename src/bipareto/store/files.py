"""Files that are whole or absent: arrays and plain facts, hashed, without pickle."""

import hashlib
import io
import json
import math
import os
import pathlib
import zipfile
from typing import Any

import numpy as np

from bipareto.errors import message

_FACTS, _DIGEST = "facts.json", "sha256"


class CorruptFile(ValueError):
    """A file that is not what was written."""


def write_whole(path: pathlib.Path, data: bytes) -> None:
    """Replace `path` by `data` at once: whoever is killed at whatever moment leaves the old content or the new."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def export(path: Any, data: bytes) -> None:
    """`write_whole` to a file the user named."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(message("path", "be a path", repr(path), "pass a file name"))
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise ValueError(message("path", "lie in an existing folder", repr(str(target)), f"create {str(target.parent)!r}"))
    if target.is_dir():
        raise ValueError(message("path", "be a file", f"the folder {str(target)!r}", "add a file name"))
    write_whole(target, data)


def sync_folder(folder: pathlib.Path) -> None:
    """A new name is on the disk only once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pack(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> bytes:
    """A zip archive of .npy members (`numpy.load` reads it), the facts as JSON, and the hash of both."""
    members = {_FACTS: json.dumps(facts, sort_keys=True).encode()}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
        members[f"{name}.npy"] = stream.getvalue()
    members[_DIGEST] = _digest(members).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return archive.getvalue()


def unpack(data: bytes, path: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and facts of `pack`; `path` is for the message. Never allocates more than the file's own size."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            infos = file.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos) or len({i.filename for i in infos}) < len(
                infos
            ):
                raise ValueError("a compressed or repeated member")
            if not infos or infos[0].header_offset:
                raise ValueError("something before the first member")
            if sum(info.file_size for info in infos) > len(data):
                raise ValueError("members larger than the file")
            members = {info.filename: file.read(info) for info in infos}
        if members.pop(_DIGEST).decode() != _digest(members):
            raise ValueError("content that does not match its hash")
        facts = json.loads(members.pop(_FACTS))
        if not isinstance(facts, dict):
            raise ValueError("facts that are no table")
        return {name.removesuffix(".npy"): _array(member) for name, member in members.items()}, facts
    except Exception as error:  # whatever a parser may raise on bytes that are not ours
        rule = "be an intact file written by bipareto"
        found = f"{type(error).__name__}: {error}"
        raise CorruptFile(message(str(path), rule, found, "restore it from a copy, or delete it")) from error


def _digest(members: dict[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(members):
        total.update(f"{len(name)} {name} {len(members[name])} ".encode())
        total.update(members[name])
    return total.hexdigest()


def _array(data: bytes) -> np.ndarray:
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an unknown version of .npy")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    body = data[stream.tell() :]
    if fortran or dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(body):
        raise ValueError(f"an array {dtype}{shape} in {len(body)} bytes")
    return np.frombuffer(body, dtype).reshape(shape)


def jsonable(node: Any, digits: int | None = None) -> Any:
    """Tables, lists, numbers and texts only; what is no finite number becomes null, what is nothing of these its text.

    `digits`: to how many significant ones numbers are rounded (None: they read back exactly).
    """
    if isinstance(node, dict):
        return {str(key): jsonable(value, digits) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [jsonable(value, digits) for value in node]
    if isinstance(node, (np.ndarray, np.generic)):
        return jsonable(node.tolist(), digits)
    if isinstance(node, float):
        if not math.isfinite(node):
            return None
        return node if digits is None else float(f"{node:.{digits}g}")
    return node if node is None or isinstance(node, (bool, int, str)) else str(node)


def to_plain(array: Any) -> np.ndarray:
    """An array as numpy's own kinds; those it does not know (bfloat16) as their bits."""
    array = np.asarray(array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def from_plain(array: np.ndarray, like: Any, name: str) -> np.ndarray:
    """The inverse of `to_plain` for an array that must look like `like`."""
    dtype = np.dtype(like.dtype)
    if dtype.kind == "V" and array.dtype.kind == "u":
        array = array.view(dtype)
    if array.shape != like.shape or array.dtype != dtype:
        found = f"{array.dtype}{array.shape}"
        raise CorruptFile(message(name, f"be {dtype}{like.shape}", found, "restore the run directory from a copy"))
    return array
