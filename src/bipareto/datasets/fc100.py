"""FC100 (Oreshkin, Rodriguez and Lacoste 2018): CIFAR-100 with its classes split by superclass for few-shot learning.

CIFAR-100: A. Krizhevsky (2009), 32 x 32 pixels, 600 images of each of 100 classes. No licence is stated; cite his report
"Learning multiple layers of features from tiny images".
"""

import gzip
import io
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bipareto.datasets.arrays import LIMIT, Images, broken, read_npz
from bipareto.datasets.download import published
from bipareto.datasets.files import File, Source, given_folder, inside, is_npz
from bipareto.errors import message

ARCHIVE = File("cifar-100-binary.tar.gz", 169001437, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec")
SOURCE = Source("fc100", (ARCHIVE,), ("https://www.cs.toronto.edu/~kriz/",))
# 100 images of each class: enough for the experiments, and small enough to be kept beside the code.
SUBSET = File("cifar100_100x100.npz", 27885281, "468056ddf7e1bd05f76ba777694cc1a63ab54df08b5cb0c985102bb216f9cf65")
MEMBERS = {"cifar-100-binary/train.bin": 50_000, "cifar-100-binary/test.bin": 10_000}
RECORD = 2 + 3 * 32 * 32

# The classes (0 ... 99, alphabetical) of each superclass (0 ... 19, alphabetical).
CLASSES = [
    [4, 30, 55, 72, 95], [1, 32, 67, 73, 91], [54, 62, 70, 82, 92], [9, 10, 16, 28, 61], [0, 51, 53, 57, 83],
    [22, 39, 40, 86, 87], [5, 20, 25, 84, 94], [6, 7, 14, 18, 24], [3, 42, 43, 88, 97], [12, 17, 37, 68, 76],
    [23, 33, 49, 60, 71], [15, 19, 21, 31, 38], [34, 63, 64, 66, 75], [26, 45, 77, 79, 99], [2, 11, 35, 46, 98],
    [27, 29, 44, 78, 93], [36, 50, 65, 74, 80], [47, 52, 56, 59, 96], [8, 13, 48, 58, 90], [41, 69, 81, 85, 89],
]  # fmt: skip
SUPERCLASS = np.argsort(np.ravel(CLASSES)) // 5
PARTS = {
    "train": (1, 2, 3, 4, 5, 6, 9, 10, 15, 17, 18, 19),
    "validation": (8, 11, 13, 16),
    "test": (0, 7, 12, 14),
}


def fc100(part: str = "test", path: Any = None) -> Images:
    """Images [n, 32, 32, 3] and labels (0 ... 99 of CIFAR-100) of the 60, 20 or 20 classes of a part."""
    if part not in PARTS:
        raise ValueError(message("part", f"be one of {', '.join(PARTS)}", repr(part), "see bipareto.datasets.fc100"))
    images, labels = _all(path)
    if labels.min() < 0 or labels.max() > 99:
        found = f"labels {labels.min()} ... {labels.max()}"
        raise ValueError(message("path", "hold CIFAR-100's labels 0 ... 99", found, "give images of other data directly"))
    chosen = np.isin(SUPERCLASS[labels], PARTS[part])
    return Images(images[chosen], labels[chosen])


def _all(path: Any) -> Images:
    if is_npz(path):
        return read_npz(path)
    folder = given_folder(SOURCE.name, path)
    if inside(folder, ARCHIVE) is None and (subset := inside(folder, SUBSET)) is not None:
        return read_npz(subset)
    return read_archive(published(SOURCE, path)[0])


def read_archive(place: Path) -> Images:
    """The two parts of the archive's binary version, read in memory: nothing is unpacked to disk."""
    try:
        with gzip.open(place) as stream:
            content = stream.read(LIMIT + 1)
        if len(content) > LIMIT:
            raise broken(place, f"unpack to at most {LIMIT} bytes", "more")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            parts = [_records(place, archive, name, count) for name, count in MEMBERS.items()]
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise broken(place, "be a readable tar.gz file", error) from None
    records = np.concatenate(parts)
    coarse, labels = records[:, 0], records[:, 1]
    if labels.max() > 99 or (coarse != SUPERCLASS[labels]).any():
        raise broken(place, "hold CIFAR-100's classes in their superclasses", "others")
    pixels = records[:, 2:].reshape(-1, 3, 32, 32)
    return Images(np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), labels)


def _records(place: Path, archive: tarfile.TarFile, name: str, count: int) -> np.ndarray:
    """[count, 3074]: a superclass, a class, and the red, green and blue plane."""
    member = next((member for member in archive if member.name == name), None)
    if member is None or not member.isreg() or member.size != count * RECORD:
        found = "no such file" if member is None else f"{member.size} bytes of type {member.type!r}"
        raise broken(place, f"hold {name} as a file of {count * RECORD} bytes", found)
    stream = archive.extractfile(member)
    assert stream is not None  # a regular file has content
    content = stream.read()
    if len(content) != count * RECORD:
        raise broken(place, f"hold {count * RECORD} bytes of {name}", f"{len(content)}")
    return np.frombuffer(content, np.uint8).reshape(count, RECORD)
