"""A nested evolutionary solver, the stand-in for black-box methods: no gradients of the upper level at all."""

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from bipareto.errors import message, whole_number
from bipareto.front.front import Front, checked_names
from bipareto.lower import GradientDescent
from bipareto.oracles import OracleCounts, Oracles, bind
from bipareto.problem import Problem, SeparableProblem
from bipareto.solver import Evaluations, Record, Solution
from bipareto.status import Status

_WORST = 1e30  # stands for a value that is not finite: the sorting cannot compare NaN


def evolutionary(
    problem: Problem | SeparableProblem,
    x0: PyTree,
    y0: PyTree,
    bounds: Any,
    *,
    lower_step_size: Any = 0.1,
    lower_steps: int = 100,
    population: int = 40,
    generations: int = 50,
    seed: int = 0,
    names: Any = None,
) -> Front:
    """NSGA-II (Deb et al. 2002, by pymoo) over x in a box, the lower level solved anew for every individual:

    Phi(x) = f(x, y^D), y^D by D steps of descent on g(x, .) from y0; the front is that of the last population.

    The stand-in for the paper's black-box methods (PSP-BLEMO; its BLMS cannot be identified): of that family, neither of
    them. `bounds` (low, high): numbers, or trees like x0; x0 is one of the first population, the rest is uniform. The front
    has one row, and its points in the place of seeds. A point has one record: its values, weights and gap NaN (there are no
    gradients in x to judge by), and an equal part of the counts: their sum over the front is what all of it evaluated,
    generations x population x D gradients of g. It takes no preference, and is not resumed. Needs the extra `evolution`.
    """
    oracles = bind(problem, x0, y0)
    low, high = _box(oracles, bounds)
    lower = GradientDescent(lower_step_size, lower_steps)
    population = whole_number("population", population, "40 to 200 individuals are common", least=4)
    generations = whole_number("generations", generations, "pass how often to breed")
    seed = whole_number("seed", seed, "pass an integer: the same one gives the same run", least=0)
    names = None if names is None else checked_names(names, oracles.objectives)
    pymoo = _pymoo()
    began = time.perf_counter()
    start, y = np.asarray(oracles.x_layout.flatten(x0), float), oracles.y_layout.flatten(y0)
    first = np.random.default_rng(seed).uniform(low, high, (population, len(start)))
    first[0] = np.clip(start, low, high)
    x, evaluated = _evolve(pymoo, oracles, lower, y, first, (low, high), generations, seed)
    values, ends = _solved(oracles, lower, y, jnp.asarray(x, oracles.x_layout.dtype))
    found = np.flatnonzero(np.isfinite(np.asarray(values)).all(axis=1))
    if not len(found):
        raise FloatingPointError(Status.NON_FINITE_VALUE.value)
    costs = np.full(len(found), evaluated // len(found)) + (np.arange(len(found)) < evaluated % len(found))
    said = f"nondominated after {generations} generations of {population}"
    seconds = time.perf_counter() - began
    points = []
    for i, cost in zip(found, costs * lower.steps, strict=True):
        tree = oracles.x_layout.unflatten(jnp.asarray(x[i])), oracles.y_layout.unflatten(ends[i])
        point, history = np.asarray(values[i]), _history(np.asarray(values[i]), int(cost))
        counts = OracleCounts(0, int(cost), 0, 0)
        points.append(Solution(*tree, point, Status.COMPLETED, said, history, counts, Evaluations.of([]), seconds, 0.0))
    return Front(None, [points], 0.0, names)


def _evolve(pymoo, oracles, lower, y, first, box, generations, seed) -> tuple[np.ndarray, int]:
    """The nondominated x of the last population, and how many individuals were evaluated."""
    search = pymoo["NSGA2"](pop_size=len(first), sampling=first)
    frame = pymoo["Problem"](n_var=first.shape[1], n_obj=oracles.objectives, xl=box[0], xu=box[1])
    search.setup(frame, termination=("n_gen", generations), seed=seed, verbose=False)
    evaluated = 0
    while search.has_next():
        born = search.ask()
        x = np.asarray(born.get("X"), float)
        padded = np.resize(x, first.shape)  # a generation with duplicates taken out is smaller; one program for all
        values = np.asarray(_solved(oracles, lower, y, jnp.asarray(padded, oracles.x_layout.dtype))[0], float)[: len(x)]
        born.set("F", np.where(np.isfinite(values), values, _WORST))
        evaluated += len(x)
        search.tell(infills=born)
    return np.atleast_2d(search.opt.get("X")), evaluated


@eqx.filter_jit
def _solved(oracles: Oracles, lower: GradientDescent, y: Array, x: Array) -> tuple[Array, Array]:
    """Values [n, S] and lower solutions of the rows of x."""

    def one(x):
        prepared = oracles.prepare(x)
        end = lower(lambda y, t: oracles.lower_gradient(prepared.lower, y), y).end
        return oracles.upper(prepared.upper, end)[0], end

    return jax.vmap(one)(x)


def _history(values: np.ndarray, cost: int) -> Record:
    one, many = jnp.full((), jnp.nan), jnp.full(len(values), jnp.nan)
    counts = OracleCounts(*(np.int64(count) for count in (0, cost, 0, 0)))
    point = Record(jnp.asarray(values), many, one[None, None], one, one, one, one, many, counts)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], point)


def _box(oracles: Oracles, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
    remedy = "pass (low, high), two numbers or two trees like x0"
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise TypeError(message("bounds", "be a pair (low, high)", repr(bounds), remedy))
    sides = []
    for side in bounds:
        try:
            flat = np.asarray(side if isinstance(side, (int, float)) else oracles.x_layout.flatten(side), float)
        except (IndexError, TypeError, ValueError):
            raise TypeError(message("bounds", "hold numbers or trees like x0", repr(side), remedy)) from None
        if flat.shape not in ((), (oracles.x_layout.size,)):
            raise ValueError(message("bounds", f"have the {oracles.x_layout.size} entries of x0", flat.size, remedy))
        sides.append(np.broadcast_to(flat, (oracles.x_layout.size,)).copy())
    low, high = sides
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(message("bounds", "be finite with low < high in every entry", f"{low} and {high}", remedy))
    return low, high


def _pymoo() -> dict[str, Any]:
    try:
        from pymoo.algorithms.moo.nsga2 import NSGA2  # pyright: ignore[reportMissingImports]
        from pymoo.core.problem import Problem  # pyright: ignore[reportMissingImports]
    except ImportError:
        text = message("pymoo", "be installed for `evolutionary`", "no such package", "pip install bipareto[evolution]")
        raise ModuleNotFoundError(text) from None
    return {"NSGA2": NSGA2, "Problem": Problem}
