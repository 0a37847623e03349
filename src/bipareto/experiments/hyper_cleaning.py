"""Data hyper-cleaning: one weight per training image, shared by tasks whose labels are wrong at different rates.

Lower level of task s: train a linear model y_s on images weighted by sigmoid(x), labels corrupted at rate s. Upper level:
its loss on clean validation images. One x serves all rates, so that the objectives conflict: an image that misleads one
model teaches another.

    data = hyper_cleaning(*mnist(), TUNED, seed=0)
    run = solve(data.problem, algorithm(TUNED, preference), data.x0, data.y0, TUNED.steps, key=jax.random.key(0))
    accuracy(run.y, data.test), weights(run.x, data), retrained(run.x, data), references(data)
"""

import dataclasses
import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from bipareto.algorithms import HypergradientDescent, mgda, wc_mhgd
from bipareto.errors import message
from bipareto.hypergradient import StochasticNeumann
from bipareto.lower import GradientDescent
from bipareto.oracles import Oracles, bind
from bipareto.problem import SeparableProblem
from bipareto.sampling import Batches
from bipareto.spectrum import extreme_eigenvalues

# Shares of wrong labels, by the number of tasks.
RATES = {5: (0.0, 0.15, 0.3, 0.45, 0.6), 10: (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)}


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run is made of. Defaults: the paper's, where it says so.

    `sizes`: images for training, validation and test. `peak`: the preferred task's share of the preference. `seeds`: how
    often a run is repeated with another split, corruption and batches.

    The paper leaves the batches open. A lower step averages over so many others that a small batch does. `cross_batch` is
    large because a weight x_j moves only where image j is drawn for the products with J: here in a quarter of the steps.
    """

    tasks: int = 5
    sizes: tuple[int, int, int] = (20_000, 5_000, 10_000)
    ridge: float = 0.1
    steps: int = 150  # K
    lower_steps: int = 200  # D
    step_size: float = 0.1  # beta
    lower_step_size: float = 0.1  # alpha
    neumann_step_size: float = 0.5  # eta
    neumann_terms: int = 3  # Q
    u: float | str = 10.0
    peak: float = 0.9
    seeds: int = 5
    lower_batch: int = 256
    upper_batch: int = 1000
    cross_batch: int = 5000
    neumann_batch: int = 1000


PAPER = Settings()

# At the paper's step size nothing happens: the mean over 20,000 images gives hypergradients of norm 2e-3, and no weight
# moves by more than 6e-5. At 1e4 every objective is lowest under its own preference. u = 10 would then be far above
# 2/step_size, plain descent on the worst task: the prox value follows the step size.
TUNED = dataclasses.replace(PAPER, step_size=1e4, u="prox")

# A tenth of the images, so a tenth of the step size for the same motion of each weight. Fewer, larger lower steps: still
# far below 2/L = 4.7. One seed.
QUICK = dataclasses.replace(
    TUNED, sizes=(2000, 1000, 2000), lower_steps=50, step_size=1e3, lower_step_size=0.5, seeds=1,
    lower_batch=128, upper_batch=500, cross_batch=500, neumann_batch=500,
)  # fmt: skip

PRESETS = {"paper": PAPER, "tuned": TUNED, "quick": QUICK}


class Split(NamedTuple):
    images: np.ndarray
    labels: np.ndarray


class HyperCleaning(NamedTuple):
    """The problem, where to start, and its data; `noisy` [S, n] are the training labels the tasks see."""

    problem: SeparableProblem
    x0: Float[Array, " n"]
    y0: Float[Array, "S pixels classes"]
    train: Split
    noisy: np.ndarray
    validation: Split
    test: Split
    ridge: float


def hyper_cleaning(images: Any, labels: Any, settings: Settings = PAPER, seed: int = 0) -> HyperCleaning:
    """The experiment on images [n, ...] with pixels 0 ... 255 (uint8) or as they are (floats), and labels 0, 1, ... [n]."""
    if settings.tasks not in RATES:
        raise ValueError(message("tasks", f"be one of {list(RATES)}", settings.tasks, "or build a `cleaning_problem`"))
    rates = RATES[settings.tasks]
    images, labels = _checked(images, labels)
    train, validation, test = split(images, labels, settings.sizes, seed)
    classes = int(labels.max()) + 1
    noisy = corrupted(train.labels, rates, classes, seed)
    problem = cleaning_problem(train, noisy, validation, settings.ridge)
    x0 = jnp.zeros(len(train.labels), jnp.float32)
    y0 = jnp.zeros((len(rates), images.shape[1], classes), jnp.float32)
    return HyperCleaning(problem, x0, y0, train, noisy, validation, test, settings.ridge)


def algorithm(settings: Settings = PAPER, preference: Any = None) -> HypergradientDescent:
    """The stochastic algorithm (Algorithms 2 and 3): WC-MHGD with a preference, MGDA without."""
    series = StochasticNeumann(settings.neumann_terms, settings.neumann_step_size, settings.neumann_batch)
    batches = Batches(settings.lower_batch, settings.upper_batch, settings.cross_batch)
    common = (settings.step_size, settings.lower_step_size, settings.lower_steps, series)
    if preference is None:
        return mgda(*common, batches=batches)
    return wc_mhgd(preference, *common, u=settings.u, batches=batches)


def split(images: np.ndarray, labels: np.ndarray, sizes: tuple[int, ...], seed: int) -> list[Split]:
    """Disjoint random parts of the data."""
    if min(sizes) < 1 or sum(sizes) > len(images):
        rule = f"be positive and share out at most the {len(images)} images"
        raise ValueError(message("sizes", rule, sizes, "lower them, or give more images"))
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

    return SeparableProblem(
        validation_loss,
        TrainingLoss(ridge),
        tasks=len(noisy),
        upper_data=tuple(validation),
        lower_data=(train.images, noisy, np.arange(len(train.labels))),
        upper_axes=None,
        lower_axes=(None, 0, None),
    )


class TrainingLoss(eqx.Module):
    """Lower level of one task. Two of the same ridge are equal, so that problems of the same shape share a program."""

    ridge: float

    def __call__(self, x, y, data):
        images, labels, index = data  # index: which weight belongs to an image, also where a batch was drawn
        return jnp.mean(jax.nn.sigmoid(x[index]) * cross_entropy(images, y, labels)) + self.ridge * jnp.sum(y**2)


def validation_loss(x, y, data):
    """Upper level of one task."""
    images, labels = data
    return jnp.mean(cross_entropy(images, y, labels))


def cross_entropy(
    images: Float[Array, "n pixels"], model: Float[Array, "pixels classes"], labels: Int[Array, " n"]
) -> Float[Array, " n"]:
    return optax.softmax_cross_entropy_with_integer_labels(images @ model, labels)


def accuracy(models: Float[Array, "S pixels classes"], part: Split) -> np.ndarray:
    """[S]: share of images each task's model names rightly."""
    return np.asarray(jnp.mean(jnp.argmax(part.images @ models, axis=-1) == part.labels, axis=-1))


class Weights(NamedTuple):
    """Mean weight sigmoid(x) of the images whose label is right in task s, and of those where it is wrong (NaN: none)."""

    clean: np.ndarray
    corrupted: np.ndarray


def weights(x: Float[Array, " n"], data: HyperCleaning) -> Weights:
    weight = np.asarray(jax.nn.sigmoid(x))
    wrong = data.noisy != data.train.labels
    mean = lambda chosen: np.array([weight[row].mean() if row.any() else np.nan for row in chosen])  # noqa: E731
    return Weights(mean(~wrong), mean(wrong))


class References(NamedTuple):
    """Test accuracy [S] of models trained on all images as labelled, and on the rightly labelled ones only."""

    everything: np.ndarray
    clean_only: np.ndarray


def references(data: HyperCleaning) -> References:
    """What cleaning is measured against: the same models and ridge, trained to convergence without learned weights."""
    right = data.noisy == data.train.labels
    return References(*(accuracy(_trained(data, share), data.test) for share in (np.ones_like(right), right)))


def retrained(x: Float[Array, " n"], data: HyperCleaning) -> np.ndarray:
    """Test accuracy [S] of models trained to convergence with the learned weights, scaled to mean 1.

    Comparable with `references`. The models of the run itself are not: weights below 1 act like a stronger ridge on them.
    """
    share = np.broadcast_to(jax.nn.sigmoid(x), data.noisy.shape)
    return accuracy(_trained(data, share), data.test)


class SharedLoss(eqx.Module):
    """Mean loss over images that count in given shares, with a ridge. Equal for equal ridges, as `TrainingLoss` is."""

    ridge: float

    def __call__(self, x, y, data):
        images, labels, share = data
        return jnp.sum(share * cross_entropy(images, y, labels)) / jnp.sum(share) + self.ridge * jnp.sum(y**2)


def _trained(data: HyperCleaning, share: np.ndarray, steps: int = 100) -> Float[Array, "S pixels classes"]:
    """Models that minimise the mean loss over images that count in the given shares [S, n]."""
    loss, tasks = SharedLoss(data.ridge), len(data.noisy)
    lower_data = (data.train.images, data.noisy, share.astype(np.float32))
    problem = SeparableProblem(loss, loss, tasks, lower_data, lower_data, (None, 0, 0), (None, 0, 0))
    oracles = bind(problem, data.x0, data.y0)
    x, y = oracles.x_layout.flatten(data.x0), oracles.y_layout.flatten(data.y0)
    # The curvature is known at y0 only; half of 1/L keeps clear of where it grows.
    return oracles.y_layout.unflatten(_end(0.5 / extreme_eigenvalues(oracles, x, y)[1], steps, oracles, x, y))


@eqx.filter_jit
def _end(size: Array, steps: int, oracles: Oracles, x: Array, y: Array) -> Array:
    descend = GradientDescent(optax.sgd(size, momentum=0.8, nesterov=True), steps)
    return descend(lambda y, t: oracles.lower_gradient(x, y), y).end


def _checked(images: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Images as float32 [n, pixels], labels as int32 [n]."""
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim < 2 or images.dtype.kind not in "uf" or not len(images):
        found = f"{images.dtype} {images.shape}"
        raise ValueError(message("images", "be uint8 or floats [n, ...]", found, "see bipareto.datasets"))
    shaped = labels.shape == images.shape[:1] and labels.dtype.kind in "iu"
    if not shaped or labels.min() < 0:
        found = labels.min() if shaped else f"{labels.dtype} {labels.shape}"
        raise ValueError(message("labels", f"be whole numbers >= 0 [{len(images)}]", found, "give one per image"))
    scale = np.float32(255 if images.dtype.kind == "u" else 1)
    return images.reshape(len(images), -1).astype(np.float32) / scale, labels.astype(np.int32)
