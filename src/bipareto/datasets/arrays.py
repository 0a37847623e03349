"""Images and labels out of files that may be broken or hostile: no pickle, a bound on sizes, no trust in headers."""

import gzip
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bipareto.errors import message

# The largest set here, CIFAR-100, has 184 MB.
LIMIT = 2**28


class Images(NamedTuple):
    """`images`: uint8 [n, height, width] or [n, height, width, colours]; `labels`: [n]."""

    images: np.ndarray
    labels: np.ndarray


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """A gzipped idx file of bytes: 0, 0, 8, the number of axes, their lengths (big-endian), the data."""
    try:
        with gzip.open(path) as stream:
            header = stream.read(4 + 4 * ndim)
            if header[:4] != bytes((0, 0, 8, ndim)) or len(header) < 4 + 4 * ndim:
                raise broken(path, f"begin like an idx file of bytes with {ndim} axes", f"the bytes {header[:4].hex(' ')}")
            shape = tuple(int(length) for length in np.frombuffer(header, ">u4", offset=4))
            size = _within_limit(path, shape)
            data = stream.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, "be a readable gzip file", error) from None
    if len(data) != size:
        found = "more" if len(data) > size else len(data)
        raise broken(path, f"hold {size} bytes of data for its shape {shape}", found)
    return np.frombuffer(data, np.uint8).reshape(shape)


def read_npz(path: Any) -> Images:
    """The arrays `images` (uint8) and `labels` (integers) of an .npz file."""
    place = Path(path)
    if not place.is_file():
        raise FileNotFoundError(message("path", "be an existing .npz file", str(place), "check the name"))
    try:
        with zipfile.ZipFile(place) as archive:
            images, labels = (_read_npy(place, archive, name) for name in ("images", "labels"))
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise broken(place, "be a readable .npz file", error) from None
    return checked(place, images, labels)


def checked(place: Path, images: np.ndarray, labels: np.ndarray) -> Images:
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.size == 0:
        raise broken(place, "hold `images` as uint8 [n, height, width(, colours)]", f"{images.dtype} {images.shape}")
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise broken(place, f"hold `labels` as integers [{len(images)}]", f"{labels.dtype} {labels.shape}")
    return Images(images, labels)


def broken(place: Path, rule: str, found: object) -> ValueError:
    return ValueError(message(str(place), rule, found, "fetch or write it again"))


def _read_npy(place: Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    if f"{name}.npy" not in archive.namelist():
        raise broken(place, f"hold an array `{name}`", f"{archive.namelist()}")
    entry = archive.getinfo(f"{name}.npy")
    with archive.open(entry) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(stream)
        except ValueError as error:
            raise broken(place, f"hold `{name}` in numpy's format", error) from None
        if dtype.kind not in "biuf":
            raise broken(place, f"hold `{name}` as numbers", f"dtype {dtype}")
        size = _within_limit(place, (*shape, dtype.itemsize))
        # What the header promises is compared with the archive's directory before it is allocated.
        if size != entry.file_size - stream.tell():
            raise broken(place, f"hold {size} bytes for `{name}` {shape}", entry.file_size - stream.tell())
        data = stream.read(size)
    if len(data) != size:
        raise broken(place, f"hold {size} bytes for `{name}` {shape}", len(data))
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _within_limit(place: Path, shape: tuple[int, ...]) -> int:
    size = math.prod(shape)
    if min(shape) < 0 or size > LIMIT:
        raise broken(place, f"hold at most {LIMIT} bytes", f"shape {shape} announced")
    return size
