"""Problems that know their answer: the lower solution in closed form, hence exact hypergradients, fronts and optima.

Each is made once, since programs are compiled anew for functions made anew.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree

import bipareto as bp


@dataclasses.dataclass(frozen=True)
class Case:
    """`solution(x)` is argmin_y g(x, y); `smoothness` and `convexity` bound the eigenvalues of its Hessian."""

    name: str
    problem: Any
    x: Any
    y: Any
    solution: Callable
    smoothness: float
    convexity: float

    def values(self, x):
        return upper_values(self.problem, x, self.solution(x))

    def jacobian(self, x):
        """Exact hypergradients [S, p]: autodiff through the closed-form lower solution."""
        flat, unravel = ravel_pytree(x)
        return np.asarray(jax.jit(jax.jacobian(lambda flat: self.values(unravel(flat))))(flat))

    @property
    def lower(self):
        """Gradient descent that contracts to rounding from the case's start."""
        rate = 1 - self.convexity / self.smoothness
        return bp.GradientDescent(1 / self.smoothness, int(np.ceil(np.log(1e-16) / np.log(rate))))


def upper_values(problem, x, y):
    """Phi written down without the library's oracles."""
    seen = lambda data: x if problem.prepare is None else problem.prepare(x, *data)  # noqa: E731
    if isinstance(problem, bp.Problem):
        data = () if problem.upper_data is None else (problem.upper_data,)
        return problem.upper(seen(data), y, *data)
    values = []
    for s in range(problem.tasks):
        data = task_data(problem.upper_data, problem.upper_axes, s)
        values.append(problem.upper(seen(data), jax.tree.map(lambda leaf, s=s: leaf[s], y), *data))
    return jnp.stack(values)


def task_data(data, axes, s):
    if data is None:
        return ()
    leaves, treedef = jax.tree.flatten(data)
    return (treedef.unflatten([leaf if a is None else jnp.take(leaf, s, a) for leaf, a in zip(leaves, axes, strict=True)]),)


def as_joint(problem: bp.SeparableProblem) -> bp.Problem:
    """The same problem with its structure hidden: one y for all tasks, the mean of their lower levels."""

    def lower(x, y):
        total = 0.0
        for s in range(problem.tasks):
            data = task_data(problem.lower_data, problem.lower_axes, s)
            seen = x if problem.prepare is None else problem.prepare(x, *data)
            total = total + problem.lower(seen, jax.tree.map(lambda leaf, s=s: leaf[s], y), *data)
        return total / problem.tasks

    return bp.Problem(lambda x, y: upper_values(problem, x, y), lower)


def _spd(rng, n, low=0.5, high=2.0):
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return q @ np.diag(np.linspace(low, high, n)) @ q.T


@functools.cache
def quadratic(seed=0, p=4, q=6, objectives=3) -> Case:
    """g = y'Ay/2 - y'(Bx + c), f_s = |y - t_s|^2/2 + 0.05|x - w_s|^2, positive everywhere."""
    rng = np.random.default_rng(seed)
    a, b, c = jnp.array(_spd(rng, q)), jnp.array(rng.normal(size=(q, p))), jnp.array(rng.normal(size=q))
    t, w = jnp.array(rng.normal(size=(objectives, q))), jnp.array(rng.normal(size=(objectives, p)))

    def lower(x, y):
        return 0.5 * y @ a @ y - y @ (b @ x + c)

    def upper(x, y):
        return 0.5 * jnp.sum((y - t) ** 2, axis=1) + 0.05 * jnp.sum((x - w) ** 2, axis=1)

    x, y = jnp.array(rng.normal(size=p)), jnp.array(rng.normal(size=q))
    return Case("quadratic", bp.Problem(upper, lower), x, y, lambda x: jnp.linalg.solve(a, b @ x + c), 2.0, 0.5)


@functools.cache
def separable_quadratic(seed=0, p=4, q=3, objectives=5) -> Case:
    """One quadratic lower level per task: g_s = y_s'A_s y_s/2 - y_s'(B_s x + c), with c shared by the tasks."""
    rng = np.random.default_rng(seed)
    a = jnp.array(np.stack([_spd(rng, q) for _ in range(objectives)]))
    b, c = jnp.array(rng.normal(size=(objectives, q, p))), jnp.array(rng.normal(size=q))
    t = jnp.array(rng.normal(size=(objectives, q)))

    def lower(x, y, data):
        a, b, c = data
        return 0.5 * y @ a @ y - y @ (b @ x + c)

    def upper(x, y, target):
        return 0.5 * jnp.sum((y - target) ** 2) + 0.05 * jnp.sum(x**2)

    problem = bp.SeparableProblem(upper, lower, objectives, upper_data=t, lower_data=(a, b, c), lower_axes=(0, 0, None))
    x, y = jnp.array(rng.normal(size=p)), jnp.array(rng.normal(size=(objectives, q)))
    solution = lambda x: jax.vmap(lambda a, b: jnp.linalg.solve(a, b @ x + c))(a, b)  # noqa: E731
    return Case("separable quadratic", problem, x, y, solution, 2.0 / objectives, 0.5 / objectives)


@functools.cache
def ridge(seed=0, features=5, samples=20, objectives=3) -> Case:
    """Ridge regression with one penalty exp(x_j) per feature; the objectives are validation errors on different sets."""
    rng = np.random.default_rng(seed)
    z, target = jnp.array(rng.normal(size=(samples, features))), jnp.array(rng.normal(size=samples))
    val = jnp.array(rng.normal(size=(objectives, 8, features))), jnp.array(rng.normal(size=(objectives, 8)))

    def lower(x, y, data):
        z, target = data
        return 0.5 * jnp.mean((z @ y - target) ** 2) + 0.5 * jnp.sum(jnp.exp(x) * y**2)

    def upper(x, y, data):
        z, target = data
        return 0.5 * jnp.mean((z @ y - target) ** 2, axis=1) + 0.05 * jnp.sum(x**2)

    x, y = jnp.array(0.3 * rng.normal(size=features)), jnp.zeros(features)
    hessian = lambda x: z.T @ z / samples + jnp.diag(jnp.exp(x))  # noqa: E731
    solution = lambda x: jnp.linalg.solve(hessian(x), z.T @ target / samples)  # noqa: E731
    eigenvalues = np.linalg.eigvalsh(hessian(x))
    problem = bp.Problem(upper, lower, val, (z, target))
    return Case("ridge", problem, x, y, solution, float(eigenvalues[-1]), float(eigenvalues[0]))


@functools.cache
def logistic(seed=0, samples=12, features=3, objectives=2) -> Case:
    """Not quadratic: logistic regression with a weight per sample, solved to rounding by Newton's method."""
    rng = np.random.default_rng(seed)
    z, sign = jnp.array(rng.normal(size=(samples, features))), jnp.array(rng.choice([-1.0, 1.0], samples))
    val = jnp.array(rng.normal(size=(objectives, 6, features))), jnp.array(rng.choice([-1.0, 1.0], (objectives, 6)))

    def lower(x, y, data):
        z, sign = data
        return jnp.mean(jax.nn.sigmoid(x) * jax.nn.softplus(-sign * (z @ y))) + 0.1 * jnp.sum(y**2)

    def upper(x, y, data):
        z, sign = data
        return jnp.mean(jax.nn.softplus(-sign * (z @ y)), axis=1) + 0.01 * jnp.sum(x**2)

    def solution(x):
        def newton(_, y):
            slope, curvature = jax.grad(lower, 1)(x, y, (z, sign)), jax.hessian(lower, 1)(x, y, (z, sign))
            return y - jnp.linalg.solve(curvature, slope)

        # Quadratic convergence: the derivative of the last steps is the implicit derivative.
        return jax.lax.fori_loop(0, 12, newton, jnp.zeros(features))

    x, y = jnp.array(rng.normal(size=samples)), jnp.array(rng.normal(size=features))
    smoothness = 0.2 + 0.25 * float(np.linalg.eigvalsh(np.asarray(z.T @ z))[-1]) / samples
    return Case("logistic", bp.Problem(upper, lower, val, (z, sign)), x, y, solution, smoothness, 0.2)


@functools.cache
def network(seed=0, objectives=3, prepared=False) -> Case:
    """x: the layers of a small network (a nested tree); y: one linear head with bias per task, on its features."""
    rng = np.random.default_rng(seed)
    width, inputs = 4, 3
    draw = lambda *shape: jnp.array(rng.normal(size=shape))  # noqa: E731
    x = {"first": {"w": draw(inputs, width), "b": draw(width)}, "second": (draw(width, width),)}
    y = {"head": draw(objectives, width), "bias": draw(objectives)}
    train, val = (draw(objectives, 7, inputs), draw(objectives, 7)), (draw(objectives, 9, inputs), draw(objectives, 9))

    def features(x, data):
        hidden = jnp.tanh(data[0] @ x["first"]["w"] + x["first"]["b"])
        return jnp.tanh(hidden @ x["second"][0])

    def fit(features, y, data):
        return 0.5 * jnp.mean((features @ y["head"] + y["bias"] - data[1]) ** 2)

    def ridged(features, y, data):
        return fit(features, y, data) + 0.1 * (jnp.sum(y["head"] ** 2) + y["bias"] ** 2)

    if prepared:
        losses, prepare = (fit, ridged), features
    else:
        losses = [lambda x, y, data, loss=loss: loss(features(x, data), y, data) for loss in (fit, ridged)]
        prepare = None

    def solution(x):
        def one(inputs, target):
            z = jnp.concatenate([features(x, (inputs, None)), jnp.ones((7, 1))], axis=1)
            return jnp.linalg.solve(z.T @ z / 7 + 0.2 * jnp.eye(width + 1), z.T @ target / 7)

        flat = jax.vmap(one)(*train)
        return {"head": flat[:, :-1], "bias": flat[:, -1]}

    problem = bp.SeparableProblem(*losses, tasks=objectives, upper_data=val, lower_data=train, prepare=prepare)
    name = "prepared network" if prepared else "network"
    return Case(name, problem, x, y, solution, (1 + width + 0.2) / objectives, 0.2 / objectives)


CASES = [quadratic(), separable_quadratic(), ridge(), logistic(), network(), network(prepared=True)]
NAMES = [case.name for case in CASES]


def chebyshev_optimum(case: Case, preference, start) -> tuple[np.ndarray, float]:
    """argmin_x max_s r_s phi_s(x) by sequential quadratic programming on the epigraph form."""
    p, r = len(start), np.asarray(preference)
    values, jacobian = jax.jit(case.values), jax.jit(jax.jacobian(case.values))
    constraint = {
        "type": "ineq",
        "fun": lambda z: z[p] - r * np.asarray(values(z[:p])),
        "jac": lambda z: np.hstack([-r[:, None] * np.asarray(jacobian(z[:p])), np.ones((len(r), 1))]),
    }
    top = float(np.max(r * np.asarray(values(start))))
    found = scipy.optimize.minimize(
        lambda z: z[p], np.append(start, top), jac=lambda z: np.eye(p + 1)[p], constraints=[constraint], method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )  # fmt: skip
    return found.x[:p], float(found.fun)
