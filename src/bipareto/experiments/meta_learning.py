"""Few-shot meta-learning: one convolutional backbone x, shared by tasks that each train a linear head y_s on it.

Lower level of task s: fit the head to the backbone's features of few support images (cross-entropy and a ridge, strongly
convex). Upper level: the loss of that head on the task's query images. x enters through the features only, so they are
prepared once per upper step and level: one forward and one backward pass per task, however many lower steps there are.

    data = meta_learning(*fc100(), PAPER, seed=0)
    run = solve(data.problem, algorithm(PAPER, preference), data.x0, data.y0, PAPER.steps)
    accuracy(run.x, run.y, data.query), accuracy(run.x, run.y, data.test)
"""

import dataclasses
import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from bipareto.algorithms import HypergradientDescent, mgda, wc_mhgd
from bipareto.errors import message, whole_number
from bipareto.hypergradient import Unrolled
from bipareto.problem import SeparableProblem


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run is made of. Defaults: the paper's, where it says so.

    `sizes`: images of each class of a task for support, query and test: 5-way 5-shot means 25 support images, 75 query
    images are customary with it. `channels`: filters of each block of the backbone. `peak`: the preferred task's share of
    the preference (the paper also shows 0.96). `seeds`: how often a run is repeated with other tasks and another start.
    """

    tasks: int = 5
    ways: int = 5
    sizes: tuple[int, int, int] = (5, 15, 30)
    channels: tuple[int, ...] = (64, 64, 64, 64)
    ridge: float = 0.01
    steps: int = 500  # K
    lower_steps: int = 32  # D
    step_size: float = 0.1  # beta
    lower_step_size: float = 0.1  # alpha
    u: float | str = 10.0
    peak: float = 0.8
    seeds: int = 4


PAPER = Settings()

# The paper's settings work as printed. u = 10 is half of 2/step_size; the prox value makes max r_s phi_s fall at every step.
TUNED = dataclasses.replace(PAPER, u="prox")

# A quarter of the filters costs a third of the time on two cores; the loss of the preferred task has fallen after 60 steps.
QUICK = dataclasses.replace(TUNED, channels=(16, 16, 16, 16), steps=60, seeds=1)

PRESETS = {"paper": PAPER, "tuned": TUNED, "quick": QUICK}


class Shots(NamedTuple):
    """Images [S, n, height, width, colours] with pixels in [0, 1], and labels 0 ... ways - 1 [S, n], n / ways of each."""

    images: np.ndarray
    labels: np.ndarray


class MetaLearning(NamedTuple):
    """The problem, where to start, and the images of its tasks."""

    problem: SeparableProblem
    x0: dict
    y0: dict
    support: Shots
    query: Shots
    test: Shots


def meta_learning(images: Any, labels: Any, settings: Settings = PAPER, seed: int = 0) -> MetaLearning:
    """The experiment on images [n, height, width, colours] with pixels 0 ... 255 (uint8) or as they are (floats)."""
    support, query, test = few_shot_tasks(images, labels, settings, seed)
    height, width, colours = support.images.shape[2:]
    if min(height, width) < 2 ** len(settings.channels):
        rule = f"have no more blocks than {height} x {width} pixels can be halved"
        raise ValueError(message("channels", rule, settings.channels, "take fewer blocks or larger images"))
    x0 = backbone(jax.random.key(seed), settings.channels, colours)
    width = jax.eval_shape(features, x0, tuple(part[0] for part in support)).shape[1]
    y0 = {
        "weight": jnp.zeros((settings.tasks, width, settings.ways), jnp.float32),
        "bias": jnp.zeros((settings.tasks, settings.ways), jnp.float32),
    }
    return MetaLearning(few_shot_problem(support, query, settings.ridge), x0, y0, support, query, test)


def algorithm(settings: Settings = PAPER, preference: Any = None) -> HypergradientDescent:
    """The deterministic algorithm with unrolled hypergradients (Algorithm 1): WC-MHGD with a preference, MGDA without."""
    common = (settings.step_size, settings.lower_step_size, settings.lower_steps, Unrolled())
    return mgda(*common) if preference is None else wc_mhgd(preference, *common, u=settings.u)


def few_shot_tasks(images: Any, labels: Any, settings: Settings = PAPER, seed: int = 0) -> tuple[Shots, Shots, Shots]:
    """Support, query and test images of tasks whose classes are drawn for each task by itself.

    Tasks may share classes, and then images for support and query. Test images are set aside first: no task sees them.
    """
    images, labels = _checked(images, labels)
    tasks = whole_number("tasks", settings.tasks, "pass the number of objectives S")
    held, seen = settings.sizes[2], settings.sizes[0] + settings.sizes[1]
    rng = np.random.default_rng(seed)
    of_class = {label: rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)}
    classes = [label for label, members in of_class.items() if len(members) >= held + seen]
    if min(settings.sizes) < 1 or not 2 <= settings.ways <= len(classes):
        rule = "be positive and leave `ways` classes with that many images each"
        found = f"sizes {settings.sizes} for {settings.ways} ways, and {len(classes)} such classes"
        raise ValueError(message("sizes", rule, found, "lower them, or give more images"))
    ends = np.cumsum((0, *settings.sizes))
    rows = []
    for _ in range(tasks):
        ways = rng.choice(classes, settings.ways, replace=False)
        drawn = np.stack([np.append(rng.permutation(of_class[way][held:])[:seen], of_class[way][:held]) for way in ways])
        rows.append([drawn[:, a:b].ravel() for a, b in itertools.pairwise(ends)])
    parts = (np.stack(part) for part in zip(*rows, strict=True))
    names = (np.tile(np.repeat(np.arange(settings.ways), size), (tasks, 1)) for size in settings.sizes)
    support, query, test = (Shots(images[part], name) for part, name in zip(parts, names, strict=True))
    return support, query, test


def few_shot_problem(support: Shots, query: Shots, ridge: float) -> SeparableProblem:
    """One task per row of the images. Support and query images are normalised by the statistics of their own batch."""

    tasks = len(support.labels)
    return SeparableProblem(query_loss, SupportLoss(ridge), tasks, tuple(query), tuple(support), prepare=features)


def query_loss(h, y, data):
    """Upper level of one task, on the features h of its query images."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(h @ y["weight"] + y["bias"], data[1]))


class SupportLoss(eqx.Module):
    """Lower level of one task. Two of the same ridge are equal, so that problems of the same shape share a program."""

    ridge: float

    def __call__(self, h, y, data):
        return query_loss(h, y, data) + self.ridge * (jnp.sum(y["weight"] ** 2) + jnp.sum(y["bias"] ** 2))


def backbone(key: Any, channels: tuple[int, ...] = (64, 64, 64, 64), colours: int = 3) -> dict:
    """Blocks of a 3 x 3 kernel (normal with variance 2/(9 inputs), He et al. 2015), a scale of 1 and a shift of 0."""
    sizes = [whole_number("channels", size, "pass the filters of each block") for size in (colours, *channels)]
    blocks = {}
    for index, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        kernel = jax.random.normal(jax.random.fold_in(key, index), (3, 3, inputs, outputs), jnp.float32)
        ones = jnp.ones(outputs, jnp.float32)
        kernel *= np.float32(np.sqrt(2 / (9 * inputs)))
        blocks[f"block{index}"] = {"kernel": kernel, "scale": ones, "shift": jnp.zeros_like(ones)}
    return blocks


def features(x: dict, data: tuple) -> Float[Array, "n features"]:
    """[convolution -> batch norm by the statistics of these images -> ReLU -> max-pool 2] for each block, flattened."""
    maps = jnp.asarray(data[0])
    for name in sorted(x):
        block = x[name]
        layout = ("NHWC", "HWIO", "NHWC")
        maps = jax.lax.conv_general_dilated(maps, block["kernel"], (1, 1), "SAME", dimension_numbers=layout)
        # No array of (maps - mean), nor for the variance: with both the gradient takes 1.3 times as long on a CPU.
        mean = jnp.mean(maps, axis=(0, 1, 2))
        variance = jnp.maximum(jnp.mean(maps**2, axis=(0, 1, 2)) - mean**2, 0)
        factor = block["scale"] * jax.lax.rsqrt(variance + 1e-5)
        maps = _pooled(jax.nn.relu(maps * factor + (block["shift"] - mean * factor)))
    return maps.reshape(len(maps), -1)


def accuracy(x: PyTree, y: PyTree, shots: Shots) -> np.ndarray:
    """[S]: share of images that each task's head names rightly.

    The images of a task are one batch and normalised by its statistics, as the query images are while x is learned. For
    test images that means: an image is judged together with the task's others, all classes in equal shares.
    """
    return np.asarray(_accuracy(x, y, *map(jnp.asarray, shots)))


@jax.jit
def _accuracy(x, y, images, labels):
    h = jax.vmap(features, (None, 0))(x, (images, labels))
    named = jnp.argmax(h @ y["weight"] + y["bias"][:, None], axis=-1)
    return jnp.mean(named == labels, axis=1)


def _pooled(maps: Float[Array, "n height width c"]) -> Float[Array, "n half_height half_width c"]:
    """The largest of each 2 x 2 square."""
    # Choices between two, whose derivative takes one or the other: that of `jnp.max` looks for what equals the maximum, and
    # the compiler may compute both anew, rounded differently (in float64 on a CPU most of the gradient was lost). On a CPU
    # this is also faster, two and a half times than `reduce_window`, whose derivative is a scatter.
    count, height, width, channels = maps.shape
    squares = maps[:, : height // 2 * 2, : width // 2 * 2].reshape(count, height // 2, 2, width // 2, 2, channels)
    return _larger(*(_larger(squares[:, :, row, :, 0], squares[:, :, row, :, 1]) for row in range(2)))


def _larger(a: Array, b: Array) -> Array:
    return jnp.where(a >= b, a, b)


def _checked(images: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim != 4 or images.dtype.kind not in "uf" or not len(images):
        found = f"{images.dtype} {images.shape}"
        raise ValueError(message("images", "be uint8 or floats [n, height, width, colours]", found, "see fc100"))
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        found = f"{labels.dtype} {labels.shape}"
        raise ValueError(message("labels", f"be whole numbers [{len(images)}]", found, "give one per image"))
    scale = np.float32(255 if images.dtype.kind == "u" else 1)
    return images.astype(np.float32) / scale, labels
