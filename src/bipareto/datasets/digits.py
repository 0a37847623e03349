"""Handwritten digits: 1,797 images of 8 x 8 pixels, embedded in the package.

Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository, CC BY 4.0;
its test set, as uint8 pixels 0 ... 16.
"""

import importlib.resources

import numpy as np


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images [1797, 64] with pixels in [0, 1], and labels [1797]."""
    with importlib.resources.files("bipareto.datasets").joinpath("digits.npz").open("rb") as file:
        arrays = np.load(file, allow_pickle=False)
        return arrays["images"] / np.float32(16), arrays["labels"].astype(np.int32)
