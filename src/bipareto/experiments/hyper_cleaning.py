"""Data hyper-cleaning: one weight per training image, shared by tasks whose labels are wrong at different rates.

Lower level of task s: train a linear model y_s on images weighted by sigmoid(x), labels corrupted at rate s. Upper level:
its loss on clean validation images. One x serves all rates, so that the objectives conflict: an image that misleads one
model teaches another.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from bipareto.problem import SeparableProblem


class Split(NamedTuple):
    images: np.ndarray
    labels: np.ndarray


def split(images: np.ndarray, labels: np.ndarray, sizes: tuple[int, ...], seed: int) -> list[Split]:
    """Disjoint random parts of the data."""
    order = np.random.default_rng(seed).permutation(len(images))
    ends = np.cumsum((0, *sizes))
    return [Split(images[order[a:b]], labels[order[a:b]]) for a, b in itertools.pairwise(ends)]


def corrupted(labels: np.ndarray, rates: tuple[float, ...], classes: int, seed: int) -> np.ndarray:
    """Labels [S, n], wrong at the given rates. Nested: an image that is wrong at one rate is wrong at every higher rate."""
    rng = np.random.default_rng(seed)
    fate = rng.permutation(len(labels)) / len(labels)
    wrong = (labels + rng.integers(1, classes, len(labels))) % classes
    return np.stack([np.where(fate < rate, wrong, labels) for rate in rates]).astype(np.int32)


def cleaning_problem(train: Split, noisy: np.ndarray, validation: Split, ridge: float) -> SeparableProblem:
    """S = len(noisy) tasks over the same training images with their own labels."""

    def training_loss(x, y, data):
        images, labels = data
        return jnp.mean(jax.nn.sigmoid(x) * cross_entropy(images, y, labels)) + ridge * jnp.sum(y**2)

    def validation_loss(x, y, data):
        images, labels = data
        return jnp.mean(cross_entropy(images, y, labels))

    return SeparableProblem(
        validation_loss,
        training_loss,
        tasks=len(noisy),
        upper_data=tuple(validation),
        lower_data=(train.images, noisy),
        upper_axes=None,
        lower_axes=(None, 0),
    )


def cross_entropy(
    images: Float[Array, "n pixels"], model: Float[Array, "pixels classes"], labels: Int[Array, " n"]
) -> Float[Array, " n"]:
    return optax.softmax_cross_entropy_with_integer_labels(images @ model, labels)


def accuracy(models: Float[Array, "S pixels classes"], part: Split) -> np.ndarray:
    """[S]: share of images each task's model names rightly."""
    return np.asarray(jnp.mean(jnp.argmax(part.images @ models, axis=-1) == part.labels, axis=-1))
