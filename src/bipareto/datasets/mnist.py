"""MNIST: digits of 28 x 28 pixels, Y. LeCun and C. Cortes (1998); Keras documents its licence as CC BY-SA 3.0."""

from typing import Any

import numpy as np

from bipareto.datasets.arrays import Images, broken, checked, read_idx, read_npz
from bipareto.datasets.download import published
from bipareto.datasets.files import File, Source, is_npz

SOURCE = Source(
    "mnist",
    (
        File("train-images-idx3-ubyte.gz", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        File("train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        File("t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        File("t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://raw.githubusercontent.com/fgnt/mnist/master/",
    ),
)


def mnist(path: Any = None) -> Images:
    """70,000 images [n, 28, 28] and their digits: the 60,000 for training, then the 10,000 for testing."""
    if is_npz(path):
        return read_npz(path)
    places = published(SOURCE, path)
    parts = []
    for images, labels in (places[:2], places[2:]):
        part = checked(images, read_idx(images, 3), read_idx(labels, 1))
        if part.labels.max() > 9:
            raise broken(labels, "hold digits 0 ... 9", f"{part.labels.max()}")
        parts.append(part)
    return Images(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
