"""The problems on which peers are timed, as plain arrays. Tasks share x; each trains its own y_s and is one objective."""

from typing import NamedTuple

import numpy as np

from bipareto.experiments.hyper_cleaning import Split, corrupted
from bipareto.experiments.meta_learning import MetaLearning, Settings, meta_learning


class Cleaning(NamedTuple):
    """Softmax regression with a weight sigmoid(x_i) per image: gradient steps from 0, then conjugate gradients from 0."""

    train: Split
    noisy: np.ndarray
    validation: Split
    lower_step_size: float
    lower_steps: int
    cg_steps: int
    step_size: float
    ridge: float = 0.01

    @property
    def tasks(self) -> int:
        return len(self.noisy)

    @property
    def shape(self) -> tuple[int, int]:
        return self.train.images.shape[1], 10


class FewShot(NamedTuple):
    """Heads on a convolutional backbone: gradient steps from 0, differentiated step by step."""

    data: MetaLearning
    settings: Settings

    @property
    def tasks(self) -> int:
        return self.settings.tasks

    @property
    def step_size(self) -> float:
        return self.settings.step_size


def toy(tasks: int, images: int = 5000) -> Cleaning:
    """Normal inputs, 50 lower steps of size 1, 20 of conjugate gradients; the first task sees the true labels."""
    train, validation = _images(images, lambda rng, shape: rng.normal(size=shape))
    noisy = corrupted(train.labels, tuple(np.linspace(0, 0.6, tasks)), 10, 0)
    return Cleaning(train, noisy, validation, 1.0, 50, 20, step_size=100.0)


def cleaning(tasks: int, images: int = 2000) -> Cleaning:
    """Pixels in [0, 1], four of five dark; every task sees the same images with a share of its labels drawn anew."""
    train, validation = _images(images, lambda rng, shape: rng.uniform(size=shape) * (rng.uniform(size=shape) < 0.2))
    noisy = corrupted(train.labels, tuple(np.linspace(0.1, 0.6, tasks)), 10, 0)
    return Cleaning(train, noisy, validation, 0.5, 50, 10, step_size=100.0)


def few_shot(tasks: int, channels: tuple[int, ...] = (64, 64, 64, 64), pixels: int = 32) -> FewShot:
    """25 support and 75 query images per task, drawn from noise: the time does not depend on what they show.

    Lower steps below 2/L, unlike the paper's 0.1: rounding grows a thousandfold over steps that overshoot.
    """
    settings = Settings(tasks=tasks, sizes=(5, 15, 1), channels=channels, lower_step_size=0.01)
    labels = np.repeat(np.arange(10), 21)
    images = np.random.default_rng(0).uniform(size=(len(labels), pixels, pixels, 3)).astype(np.float32)
    return FewShot(meta_learning(images, labels, settings), settings)


def _images(count, draw):
    rng = np.random.default_rng(0)
    teacher = rng.normal(size=(784, 10))
    parts = []
    for size in (count, count // 5):
        images = draw(rng, (size, 784)).astype(np.float32)
        parts.append(Split(images, np.argmax(images @ teacher, axis=1).astype(np.int32)))
    return parts
