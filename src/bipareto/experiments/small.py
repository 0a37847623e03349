"""Problems that run in seconds: the demo's digits, and a quadratic whose Pareto front is known."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bipareto.datasets import digits
from bipareto.experiments import hyper_cleaning
from bipareto.experiments.hyper_cleaning import HyperCleaning, cleaning_problem, corrupted, split
from bipareto.problem import Problem

RATES = hyper_cleaning.RATES[5]
SIZES = (1000, 397, 400)
DIGITS = {"step_size": 3000.0, "lower_step_size": 2.0, "lower_steps": 50}


def digits_cleaning(seed: int = 0, ridge: float = 1e-3) -> HyperCleaning:
    """Hyper-cleaning of a thousand embedded digits, five tasks; a column of ones gives the models their bias."""
    images, labels = digits()
    images = np.concatenate([images, np.ones((len(images), 1), images.dtype)], axis=1)
    train, validation, test = split(images, labels, SIZES, seed)
    noisy = corrupted(train.labels, RATES, 10, seed)
    x0, y0 = jnp.zeros(len(train.labels)), jnp.zeros((len(noisy), images.shape[1], 10))
    return HyperCleaning(cleaning_problem(train, noisy, validation, ridge), x0, y0, train, noisy, validation, test, ridge)


class Quadratic(NamedTuple):
    problem: Problem
    x0: Array
    y0: Array


_CURVATURE, _TARGETS = np.array([1.0, 2.0, 4.0]), np.array([[1.0, 0.0, 1.0], [-1.0, 1.0, 0.0]])


def quadratic() -> Quadratic:
    """f_s = |y - t_s|^2 / 2 over g = (y - x)' A (y - x) / 2: y*(x) = x, so phi_s(x) = |x - t_s|^2 / 2, s = 1, 2."""
    return Quadratic(Problem(_distances, _away), jnp.array([0.0, -1.0, 2.0]), jnp.zeros(3))


def _distances(x, y):
    return 0.5 * jnp.sum((y - _TARGETS) ** 2, axis=1)


def _away(x, y):
    return 0.5 * jnp.sum(_CURVATURE * (y - x) ** 2)


def quadratic_optimum(preference: Any) -> np.ndarray:
    """Values [2] where max_s r_s phi_s is least: on the segment between the targets, with r_1 phi_1 = r_2 phi_2."""
    roots = np.sqrt(np.asarray(preference, float))
    shares = roots[::-1] / roots.sum()
    return 0.5 * shares**2 * np.sum((_TARGETS[0] - _TARGETS[1]) ** 2)
