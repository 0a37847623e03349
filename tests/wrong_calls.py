"""Calls that must be refused, run as a user runs them: without the tests' type checker, which would refuse them first.

As a script: make every call, print {name: [exception type, message]} as JSON.
"""

import dataclasses
import gzip
import json
import os
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax

import bipareto as bp
import fronts
from bipareto import datasets
from bipareto.experiments import hyper_cleaning, meta_learning

FOLDER = tempfile.TemporaryDirectory()
X, Y = jnp.ones(2), jnp.ones(3)


def upper(x, y):
    return jnp.stack([jnp.sum(y**2) + jnp.sum(x**2), jnp.sum((y - 1) ** 2)])


def lower(x, y):
    return jnp.sum((y - jnp.sum(x)) ** 2)


PROBLEM = bp.Problem(upper, lower)
R = [0.5, 0.5]


def one_upper(x, y, data):
    return jnp.sum((y - data) ** 2)


def one_lower(x, y, data):
    return jnp.sum((y - jnp.sum(x) * data) ** 2)


def separable(**changes):
    settings = {
        "upper": one_upper,
        "lower": one_lower,
        "tasks": 2,
        "upper_data": jnp.ones((2, 3)),
        "lower_data": jnp.ones((2, 3)),
    }
    return bp.SeparableProblem(**{**settings, **changes})


def solve(problem=PROBLEM, algorithm=None, x0=X, y0=Y, **options):
    return bp.solve(problem, bp.mgda() if algorithm is None else algorithm, x0, y0, **{"steps": 2, **options})


def sampled(key=jax.random.key(0), lower_data=(jnp.ones((20, 3)), jnp.ones(20)), **settings):  # noqa: B008
    def lower(x, y, data):
        return jnp.sum((y - jnp.mean(data[0] * x[0], axis=0)) ** 2) + 0 * jnp.sum(data[1])

    problem = bp.Problem(lambda x, y, data: upper(x, y) * jnp.mean(data), lower, jnp.ones(30), lower_data)
    return solve(problem, bp.mgda(**{"batches": bp.Batches(4, 4, 4), **settings}), key=key)


def sampled_by(algorithm):
    data = jnp.ones((20, 3))
    return solve(bp.Problem(upper, lambda x, y, data: lower(x, y) * jnp.mean(data), None, data), algorithm)


def explore(preferences, **options):
    return bp.explore(PROBLEM, bp.wc_mhgd(R), preferences, X, Y, 2, **options)


def compared(methods=None, **options):
    methods = {"a": lambda size, r: bp.mgda(size)} if methods is None else methods
    settings = {"budget": 100.0, "step_sizes": (0.1,), "judge": bp.GradientDescent()}
    return bp.compare(PROBLEM, methods, X, Y, **settings | options)


FRONT = fronts.front([R, R], [[[1.0, 2.0]], [[2.0, 1.0]]])
THREE = fronts.front([[0.2, 0.3, 0.5]], [[[1.0, 2.0, -1.0]]], names=("loss", "energy", "seed"))
SEVEN = fronts.front(None, np.ones((1, 1, 7)))
LOST = bp.Front(None, [[fronts.run([1.0, 2.0, 3.0], status=bp.Status.NON_FINITE_VALUE)]])


def stored(name, content=b"", **arrays):
    """A file of a user's, in a folder of its own."""
    place = pathlib.Path(tempfile.mkdtemp(dir=FOLDER.name)) / name
    if arrays:
        np.savez(place, **arrays)
    else:
        place.write_bytes(content)
    return place


def with_data(folder, load):
    before, os.environ["BIPARETO_DATA"] = os.environ.get("BIPARETO_DATA"), str(folder)
    try:
        return load()
    finally:
        os.environ.pop("BIPARETO_DATA")
        if before is not None:
            os.environ["BIPARETO_DATA"] = before


def cleaned(images=np.zeros((60, 4)), labels=np.arange(60) % 10, **changes):  # noqa: B008
    settings = dataclasses.replace(hyper_cleaning.PAPER, **{"sizes": (30, 20, 10), **changes})
    return hyper_cleaning.hyper_cleaning(images, labels, settings)


def learned(images=np.zeros((60, 8, 8, 3)), labels=np.arange(60) % 6, **changes):  # noqa: B008
    settings = dataclasses.replace(meta_learning.PAPER, **{"sizes": (3, 3, 3), "channels": (2, 2), **changes})
    return meta_learning.meta_learning(images, labels, settings)


WRONG = {
    # preferences, weights
    "zero in the preference": (
        lambda: bp.wc_mhgd([0.5, 0.0]),
        "`preference` must be strictly positive; found preference[1] = 0.0",
    ),
    "negative preference": (lambda: bp.wc_mhgd([-0.5, 1.5]), "found preference[0] = -0.5"),
    "NaN preference": (lambda: bp.wc_mhgd([0.5, np.nan]), "found preference[1] = nan"),
    "infinite preference": (lambda: bp.wc_mhgd([np.inf, 1.0]), "found preference[0] = inf"),
    "empty preference": (lambda: bp.wc_mhgd([]), "`preference` must be a vector [S]; found shape (0,)"),
    "matrix preference": (lambda: bp.wc_mhgd(np.ones((2, 2))), "found shape (2, 2)"),
    "scalar preference": (lambda: bp.wc_mhgd(0.5), "found shape ()"),
    "text preference": (lambda: bp.wc_mhgd("first"), "`preference` must be a vector of numbers; found 'first'"),
    "preference of the wrong length": (
        lambda: solve(algorithm=bp.wc_mhgd([0.2, 0.3, 0.5])),
        "found 3 entries for 2 objectives",
    ),
    "weights of the wrong length": (
        lambda: solve(algorithm=bp.linear([1.0])),
        "`weights` must have one entry per objective",
    ),
    "all weights zero": (lambda: bp.linear([0.0, 0.0]), "`weights` must be finite, >= 0 and not all zero"),
    "smooth preference of the wrong length": (
        lambda: solve(algorithm=bp.HypergradientDescent(bp.GradientDescent(), bp.CG(), bp.SmoothChebyshev([1.0]), 0.1)),
        "found 1 entries for 2 objectives",
    ),
    "temperature": (lambda: bp.SmoothChebyshev(R, temperature=0.0), "`temperature` must be a number > 0; found 0.0"),
    "peak too large": (lambda: bp.preferences.focused(5, 1.0), "`peak` must lie in [1/5, 1); found 1.0"),
    "peak too small": (lambda: bp.preferences.focused(2, 0.3), "`peak` must lie in [1/2, 1); found 0.3"),
    "one focused objective": (lambda: bp.preferences.focused(1), "`objectives` must be an integer >= 2; found 1"),
    # u and the reference point
    "unknown u": (
        lambda: bp.wc_mhgd(R, u="proximal"),
        '`u` must be "prox", "certified" or a number; found \'proximal\'',
    ),
    "negative u": (lambda: bp.wc_mhgd(R, u=-1.0), "`u` must be a number >= 0; found -1.0"),
    "NaN u": (lambda: bp.wc_mhgd(R, u=np.nan), "`u` must be a number >= 0; found nan"),
    "boolean u": (lambda: bp.wc_mhgd(R, u=True), "`u` must be a number >= 0; found True"),
    "prox without a step": (lambda: bp.WeightedChebyshev(R), '`step_size` must be given for u = "prox"'),
    "prox with adam": (
        lambda: bp.wc_mhgd(R, optax.adam(0.1)),
        '`step_size` must be a float or a schedule for u = "prox"',
    ),
    "reference of the wrong length": (
        lambda: bp.wc_mhgd(R, reference=[0.0, 0.0, 0.0]),
        "`reference` must be a number or a vector of 2",
    ),
    "NaN reference": (lambda: bp.wc_mhgd(R, reference=np.nan), "`reference` must be finite"),
    "text reference": (lambda: bp.wc_mhgd(R, reference="ideal"), "`reference` must be a number or a vector [S]"),
    # steps and step sizes
    "zero step": (lambda: bp.mgda(0.0), "`step_size` must be a number > 0; found 0.0"),
    "negative step": (lambda: bp.mgda(-0.1), "`step_size` must be a number > 0; found -0.1"),
    "infinite step": (lambda: bp.mgda(np.inf), "`step_size` must be a number > 0; found inf"),
    "text step": (lambda: bp.mgda("large"), "`step_size` must be a number > 0; found 'large'"),
    "step per variable": (
        lambda: bp.mgda(np.ones(3)),
        "`step_size` must be a number > 0; found an array of shape (3,)",
    ),
    "schedule of two": (lambda: bp.mgda(lambda a, b: a), "`step_size` must map a step count to a number"),
    "schedule to vector": (lambda: bp.mgda(lambda k: jnp.ones(2) * k), "`step_size` must map a step count to a number"),
    "negative lower step": (
        lambda: bp.mgda(lower_step_size=-1.0),
        "`lower_step_size` must be a number > 0; found -1.0",
    ),
    "no lower steps": (lambda: bp.mgda(lower_steps=0), "`lower_steps` must be an integer >= 1; found 0"),
    "fractional lower steps": (lambda: bp.mgda(lower_steps=2.5), "`lower_steps` must be an integer >= 1; found 2.5"),
    "negative steps": (lambda: solve(steps=-5), "`steps` must be an integer >= 1; found -5"),
    "float steps": (lambda: solve(steps=1e3), "`steps` must be an integer >= 1; found 1000.0"),
    "negative tolerance": (lambda: solve(tolerance=-1e-3), "`tolerance` must be a number > 0; found -0.001"),
    # hypergradients
    "no CG steps": (lambda: bp.CG(0), "`steps of CG` must be an integer >= 1; found 0"),
    "CG tolerance": (lambda: bp.CG(5, tolerance=0.0), "`tolerance of CG` must be a number > 0; found 0.0"),
    "warm start": (lambda: bp.CG(5, warm_start="yes"), "`warm_start` must be True or False; found 'yes'"),
    "no Neumann terms": (lambda: bp.Neumann(0), "`terms of Neumann` must be an integer >= 1; found 0"),
    "Neumann step": (lambda: bp.Neumann(3, step_size=-1.0), "`step_size of Neumann` must be a number > 0; found -1.0"),
    "checkpoint": (lambda: bp.Unrolled(checkpoint=8), "`checkpoint` must be True or False; found 8"),
    "hypergradient by name": (
        lambda: bp.mgda(hypergradient="cg"),
        "`hypergradient` must be a Hypergradient; found 'cg'",
    ),
    "hypergradient class": (lambda: bp.mgda(hypergradient=bp.CG), "`hypergradient` must be a Hypergradient"),
    "method by name": (lambda: bp.hypergradient(PROBLEM, X, Y, "cg"), "`method` must be a hypergradient; found 'cg'"),
    "unrolled without steps": (
        lambda: bp.hypergradient(PROBLEM, X, Y, bp.Unrolled()),
        "`lower` must be given for Unrolled",
    ),
    "lower of another kind": (
        lambda: bp.hypergradient(PROBLEM, X, Y, lower=0.1),
        "`lower` must be a GradientDescent; found 0.1",
    ),
    "weighting by name": (
        lambda: bp.HypergradientDescent(bp.GradientDescent(), bp.CG(), "mgda", 0.1),
        "`weighting` must be a Weighting; found 'mgda'",
    ),
    # problems and their functions
    "upper is no function": (lambda: bp.Problem(3.0, lower), "`upper` must be a function; found 3.0"),
    "lower is no function": (lambda: bp.Problem(upper, None), "`lower` must be a function; found None"),
    "prepare is no function": (lambda: bp.Problem(upper, lower, prepare=1), "`prepare` must be a function; found 1"),
    "scalar upper": (lambda: solve(bp.Problem(lower, lower)), "`upper` must return a vector [S]; found shape ()"),
    "matrix upper": (lambda: solve(bp.Problem(lambda x, y: jnp.ones((2, 2)) * y[0], lower)), "found shape (2, 2)"),
    "list upper": (
        lambda: solve(bp.Problem(lambda x, y: [y[0], y[1]], lower)),
        "`upper` must return a vector [S]; found a list",
    ),
    "integer upper": (lambda: solve(bp.Problem(lambda x, y: jnp.arange(2), lower)), "found dtype int"),
    "vector lower": (
        lambda: solve(bp.Problem(upper, lambda x, y: y)),
        "`lower` must return a scalar; found shape (3,)",
    ),
    "lower without y": (lambda: solve(bp.Problem(upper, lambda x: x)), "`lower` must accept 2 arguments"),
    "data not taken": (lambda: solve(bp.Problem(upper, lower, jnp.ones(3))), "`upper` must accept 3 arguments"),
    "data of text": (lambda: bp.Problem(upper, lower, ["a", "b"]), "`upper_data` must be a pytree of arrays"),
    "shapes that do not fit": (
        lambda: solve(bp.Problem(upper, lambda x, y: jnp.sum(y @ x))),
        "`lower` must accept 2 arguments",
    ),
    "integer preparation": (
        lambda: solve(bp.Problem(upper, lower, prepare=lambda x: jnp.arange(2))),
        "`prepare` must return floating-point arrays",
    ),
    "not a problem": (lambda: solve((upper, lower)), "`problem` must be a Problem or SeparableProblem"),
    "not an algorithm": (lambda: solve(algorithm="wc_mhgd"), "`algorithm` must be an algorithm; found 'wc_mhgd'"),
    # separable problems
    "no tasks": (lambda: separable(tasks=0), "`tasks` must be an integer >= 1; found 0"),
    "tasks that differ from the data": (
        lambda: separable(tasks=3),
        "`upper_data` must have tasks = 3 entries along its task axis",
    ),
    "axis out of range": (lambda: separable(upper_axes=2), "found an array of shape (2, 3) with axis 2"),
    "axes of the wrong structure": (
        lambda: separable(lower_axes=(0, None)),
        "`lower_axes` must be a prefix of `lower_data`",
    ),
    "axis by name": (lambda: separable(upper_axes="tasks"), "`upper_axes` must hold integers and None; found 'tasks'"),
    "y without a task axis": (
        lambda: solve(separable(), y0=Y),
        "`y0` must have a leading axis of tasks = 2; found shape (3,)",
    ),
    "vector objective of one task": (
        lambda: solve(separable(upper=lambda x, y, data: y), y0=jnp.ones((2, 3))),
        "`upper` must return a scalar (one task's objective); found shape (3,)",
    ),
    # variables
    "integer x": (lambda: solve(x0=jnp.arange(2)), "`x0` must be a floating-point array; found dtype int"),
    "complex x": (lambda: solve(x0=1j * X), "`x0` must be a floating-point array; found dtype complex"),
    "integer leaf of y": (lambda: solve(y0={"w": Y, "n": jnp.arange(2)}), "`y0['n']` must be a floating-point array"),
    "number as x": (
        lambda: solve(x0=1.0),
        "`x0` must hold at least one floating-point array; found a tree of ['float']",
    ),
    "empty x": (lambda: solve(x0={}), "`x0` must hold at least one floating-point array"),
    "NaN in x": (lambda: solve(x0=X * np.nan), "`x0` must be finite; found NaN or Inf"),
    "Inf in y": (lambda: solve(y0=Y * np.inf), "`y0` must be finite; found NaN or Inf"),
    # batches
    "zero batch": (lambda: bp.Batches(lower=0), "`lower_batch` must be an integer >= 1; found 0"),
    "fractional batch": (lambda: bp.Batches(upper=0.1), "`upper_batch` must be an integer >= 1; found 0.1"),
    "replace": (lambda: bp.Batches(replace=1), "`replace` must be True or False; found 1"),
    "batches by number": (lambda: bp.mgda(batches=32), "`batches` must be a Batches; found 32"),
    "missing key": (lambda: sampled(key=None), "`key` must be a key where batches are drawn; found None"),
    "number as key": (lambda: sampled(key=0), "`key` must be a key where batches are drawn; found 0"),
    "batch larger than the data": (
        lambda: sampled(batches=bp.Batches(lower=21, replace=False)),
        "`lower_batch` must be at most the 20 samples of `lower_data` when drawn without replacement; found 21",
    ),
    "upper batch larger than the data": (
        lambda: sampled(batches=bp.Batches(upper=31, replace=False)),
        "`upper_batch` must be at most the 30 samples of `upper_data`",
    ),
    "series batch larger than the data": (
        lambda: sampled(batches=bp.Batches(replace=False), hypergradient=bp.StochasticNeumann(3, 0.1, 8, 0.1)),
        "`batch of StochasticNeumann` must be at most the 20 samples",
    ),
    "sample axes that differ": (
        lambda: sampled(lower_data=(jnp.ones((20, 3)), jnp.ones(19))),
        "`lower_data` must have as many samples in every array (first axis, after the task axis); found shape (20, 3), ",
    ),
    "batches without data": (
        lambda: solve(algorithm=bp.mgda(batches=bp.Batches(lower=5)), key=jax.random.key(0)),
        "`lower_batch` must be None for a problem without `lower_data`; found 5",
    ),
    "no factors": (lambda: bp.StochasticNeumann(0), "`terms of StochasticNeumann` must be an integer >= 1; found 0"),
    "negative series step": (
        lambda: bp.StochasticNeumann(3, -0.5),
        "`step_size of StochasticNeumann` must be a number > 0; found -0.5",
    ),
    "series step above 2/L": (
        lambda: sampled(hypergradient=bp.StochasticNeumann(3, 1.5, 4)),
        "`step_size of StochasticNeumann` must be below 2/L = 1 (L = 2, estimated at the start); found 1.5",
    ),
    "zero series batch": (
        lambda: bp.StochasticNeumann(3, 0.5, batch=0),
        "`batch of StochasticNeumann` must be an integer >= 1",
    ),
    "convexity without batch": (
        lambda: bp.StochasticNeumann(3, 0.5, convexity=0.1),
        "`batch` must be given with `convexity`",
    ),
    "too much convexity": (lambda: bp.StochasticNeumann(3, 0.5, 4, 3.0), "`convexity` must be at most 1/step_size"),
    "unrolled batches": (
        lambda: sampled(hypergradient=bp.Unrolled()),
        "`hypergradient` must be CG, Neumann or StochasticNeumann with batches",
    ),
    "average of one": (lambda: bp.wc_mhgd(R, average=1.0), "`average` must be below 1; found 1.0"),
    "negative average": (lambda: bp.wc_mhgd(R, average=-0.1), "`average` must be a number >= 0; found -0.1"),
    "no cadence": (lambda: solve(evaluate_every=0), "`evaluate_every` must be an integer >= 1; found 0"),
    # the other methods
    "aid unrolled": (lambda: bp.aid(hypergradient=bp.Unrolled()), "`hypergradient` must be CG in this method"),
    "itd with CG": (lambda: bp.itd(hypergradient=bp.CG()), "`hypergradient` must be Unrolled in this method"),
    "moml with CG": (lambda: bp.moml(hypergradient=bp.CG()), "`hypergradient` must be Unrolled in this method"),
    "amigo with CG": (lambda: bp.amigo(hypergradient=bp.CG()), "`hypergradient` must be AdjointDescent in this method"),
    "stocbio by name": (
        lambda: bp.stocbio(hypergradient="series"),
        "must be StochasticNeumann in this method; found 'series'",
    ),
    "aid without weights": (
        lambda: solve(algorithm=bp.aid()),
        "`weights` must have one entry per objective; found 1 entries",
    ),
    "no adjoint steps": (lambda: bp.AdjointDescent(0), "`steps of AdjointDescent` must be an integer >= 1; found 0"),
    "adjoint step": (lambda: bp.AdjointDescent(1, 0.0), "`step_size of AdjointDescent` must be a number > 0; found 0.0"),
    "adjoint batch": (lambda: bp.AdjointDescent(1, 0.1, 0), "`batch of AdjointDescent` must be an integer >= 1; found 0"),
    "adjoint step above 2/L": (
        lambda: solve(algorithm=bp.amigo(R, hypergradient=bp.AdjointDescent(3, 1.5))),
        "`step_size of AdjointDescent` must be below 2/L = 1 (L = 2, estimated at the start); found 1.5",
    ),
    "adjoint batch without data": (
        lambda: solve(algorithm=bp.amigo(R, hypergradient=bp.AdjointDescent(3, 0.1, 5)), key=jax.random.key(0)),
        "`batch of AdjointDescent` must be None for a problem without `lower_data`; found 5",
    ),
    "gmoba's adjoint step": (lambda: bp.gmoba(adjoint_step_size=-1.0), "`step_size of AdjointDescent` must be a number > 0"),
    "decay from zero": (lambda: bp.Decaying(0.0), "`size of Decaying` must be a number > 0; found 0.0"),
    "growing decay": (lambda: bp.Decaying(0.1, -0.5), "`power of Decaying` must be a number >= 0; found -0.5"),
    "soba's weights": (lambda: bp.soba([-1.0, 2.0]), "`weights` must be finite, >= 0 and not all zero"),
    "soba without weights": (lambda: solve(algorithm=bp.soba()), "`weights` must have one entry per objective"),
    "soba's two lower batches": (
        lambda: bp.soba(R, batches=bp.Batches(lower=4, cross=5)),
        "`lower_batch` must be None or equal to `cross_batch` in a single loop",
    ),
    "soba's batches by number": (lambda: bp.soba(R, batches=32), "`batches` must be a Batches; found 32"),
    "soba without a key": (
        lambda: sampled_by(bp.soba(R, batches=bp.Batches(cross=4))),
        "`key` must be a key where batches are drawn; found None",
    ),
    "soba's lower step above 2/L": (
        lambda: solve(algorithm=bp.soba(R, 0.1, 1.5)),
        "`lower_step_size` must be below 2/L = 1 (L = 2, estimated at the start); found 1.5",
    ),
    "soba's adjoint step above 2/L": (
        lambda: solve(algorithm=bp.soba(R, 0.1, 0.1, 1.5)),
        "`adjoint_step_size` must be below 2/L = 1",
    ),
    "preferences for soba": (
        lambda: bp.explore(PROBLEM, bp.soba(R), [R], X, Y, 2),
        "`preferences` must be None for an algorithm that takes no preference",
    ),
    "a preference for moco": (lambda: bp.moco().prefer(R), "`preference` must be None for MoCo, which follows none"),
    "tau of zero": (lambda: bp.stable(R, tau=0.0), "`tau` must be a number > 0; found 0.0"),
    "tau above one": (lambda: bp.stable(R, tau=1.5), "`tau` must be at most 1; found 1.5"),
    "stable's bound": (lambda: bp.stable(R, bound=0.0), "`bound` must be a number > 0; found 0.0"),
    "stable's convexity": (lambda: bp.stable(R, convexity=0.0), "`convexity` must be a number > 0; found 0.0"),
    "stable's lower step above 2/L": (
        lambda: solve(algorithm=bp.stable(R, 0.1, 1.5)),
        "`lower_step_size` must be below 2/L = 1",
    ),
    "stable with a large lower level": (
        lambda: solve(algorithm=bp.stable(R), y0=jnp.ones(4000)),
        "`y0` must be small for STABLE, which keeps q x q and q x p matrices of at most 10000000 entries; found q = 4000",
    ),
    "moco's hypergradient by name": (
        lambda: bp.moco(hypergradient="cg"),
        "`hypergradient` must be a Hypergradient; found 'cg'",
    ),
    "moco tracking by adam": (lambda: bp.moco(tracking=optax.adam(0.1)), "`tracking` must be a number or a schedule"),
    "moco's negative tracking": (lambda: bp.moco(tracking=-0.1), "`tracking` must be a number > 0; found -0.1"),
    "moco's weights step": (lambda: bp.moco(weights_step="slow"), "`weights_step` must be a number > 0; found 'slow'"),
    "moco's rho": (lambda: bp.moco(rho=-1.0), "`rho` must be a number >= 0; found -1.0"),
    "forum's rho": (lambda: bp.forum(rho=np.nan), "`rho` must be a number >= 0; found nan"),
    "forum's averaging": (lambda: bp.forum(averaging="mean"), "`averaging` must be a number > 0; found 'mean'"),
    "forum without lower steps": (lambda: bp.forum(lower_steps=0), "`lower_steps` must be an integer >= 1; found 0"),
    "evolution without a box": (lambda: bp.evolutionary(PROBLEM, X, Y, None), "`bounds` must be a pair (low, high)"),
    "evolution in an empty box": (
        lambda: bp.evolutionary(PROBLEM, X, Y, (1.0, 1.0)),
        "`bounds` must be finite with low < high",
    ),
    "evolution in a box of text": (
        lambda: bp.evolutionary(PROBLEM, X, Y, ("a", "b")),
        "`bounds` must hold numbers or trees",
    ),
    "evolution in another space": (
        lambda: bp.evolutionary(PROBLEM, X, Y, (0.0, jnp.ones(3))),
        "`bounds` must have the 2 entries of x0; found 3",
    ),
    "evolution of few": (
        lambda: bp.evolutionary(PROBLEM, X, Y, (0.0, 1.0), population=2),
        "`population` must be an integer >= 4; found 2",
    ),
    "evolution of no generation": (
        lambda: bp.evolutionary(PROBLEM, X, Y, (0.0, 1.0), generations=0),
        "`generations` must be an integer >= 1; found 0",
    ),
    "evolution with a negative seed": (
        lambda: bp.evolutionary(PROBLEM, X, Y, (0.0, 1.0), seed=-1),
        "`seed` must be an integer >= 0; found -1",
    ),
    # theory
    "accuracy above one": (
        lambda: bp.theory.advise(bp.theory.Constants(1, 2), 2.0, 3),
        "`epsilon` must be below 1; found 2.0",
    ),
    "advice for an unknown method": (
        lambda: bp.theory.advise(bp.theory.Constants(1, 2), 0.1, 3, method="unroled"),
        "`method` must be one of 'stochastic', 'cg', 'unrolled', 'no preference'; found 'unroled'; did you mean 'unrolled'?",
    ),
    "mu above L": (lambda: bp.theory.Constants(3, 2), "`mu` must be at most L = 2; found 3"),
    "negative mu": (lambda: bp.theory.Constants(-1, 2), "`mu` must be a number > 0; found -1"),
    "concave lower level": (
        lambda: bp.theory.estimate_constants(bp.Problem(upper, lambda x, y: -lower(x, y)), X, Y),
        "`lower` must be strongly convex in y",
    ),
    "no such lower level to estimate": (
        lambda: bp.theory.estimate_constants(PROBLEM, X, Y, samples=-1),
        "`samples` must be an integer >= 0; found -1",
    ),
    "no spread": (
        lambda: bp.theory.estimate_constants(PROBLEM, X, Y, spread=0.0),
        "`spread` must be a number > 0; found 0.0",
    ),
    "a step beyond the theorems": (
        lambda: bp.theory.Setting(bp.theory.Constants(1, 2), 1.0, 0.5, 10),
        "`step_size` must be at most 0.02632 for the theorems to hold; found 1.0",
    ),
    "a lower step beyond the theorems": (
        lambda: bp.theory.Setting(bp.theory.Constants(1, 2), 1e-3, 1.0, 10),
        "`lower_step_size` must be at most 2/(L + mu) = 0.6667; found 1.0",
    ),
    "too few CG steps for Theorem 1": (
        lambda: bp.theory.cg_bound(bp.theory.Setting(bp.theory.Constants(1, 9), 1e-6, 0.1, 10), 1, 5, 1.0, 1.0, 1.0),
        "`cg_steps` must be so large, with `lower_steps`, that theory.cg_contraction is at most 1/2; found 1, and",
    ),
    "too few lower steps for Theorem 2": (
        lambda: bp.theory.stochastic_bound(
            bp.theory.Setting(bp.theory.Constants(1, 9), 1e-6, 0.2, 1), (0.1, 3), (1, 1, 1, 1), 2, 1.0, 5, 1.0, 1.0
        ),
        "`lower_steps` must be so large that theta + gamma/4 is below 1; found 1, and",
    ),
    "certificate of no problem": (
        lambda: bp.theory.certify(3, bp.mgda(), FRONT.solutions[0][0]),
        "`problem` must be a Problem or SeparableProblem; found 3",
    ),
    "certificate of another algorithm": (
        lambda: bp.theory.certify(PROBLEM, "mgda", FRONT.solutions[0][0]),
        "`algorithm` must be a HypergradientDescent; found 'mgda'",
    ),
    "certificate of no run": (
        lambda: bp.theory.certify(PROBLEM, bp.mgda(), 3),
        "`solution` must be a Solution; found 3",
    ),
    "certificate of no steps": (
        lambda: bp.theory.certify(PROBLEM, bp.mgda(), fronts.run(R, curve=np.zeros((0, 2)))),
        "`solution` must have a history; found 0 steps; solve with steps >= 1",
    ),
    # exploration
    "preferences of the wrong width": (
        lambda: explore(np.ones((2, 3))),
        "`preferences` must be [P, S] with S = 2 objectives",
    ),
    "one preference": (lambda: explore([0.5, 0.5]), "`preferences` must be [P, S] with S = 2 objectives; found shape (2,)"),
    "zero in one of them": (lambda: explore([[0.5, 0.5], [1.0, 0.0]]), "`preferences[1]` must be strictly positive"),
    "no preferences to follow": (lambda: explore(None), "`preferences` must be given for an algorithm that follows one"),
    "preferences to ignore": (
        lambda: bp.explore(PROBLEM, bp.mgda(), [R], X, Y, 2),
        "`preferences` must be None for an algorithm that takes no preference",
    ),
    "seeds without key": (lambda: explore([R], seeds=2), "`key` must be given for more than one seed"),
    "no seeds": (lambda: explore([R], seeds=0), "`seeds` must be an integer >= 1; found 0"),
    "names of fewer objectives": (
        lambda: explore([R], names=("loss",)),
        "`names` must be 2 different names; found ['loss']",
    ),
    "a name for all": (lambda: explore([R], names="loss"), "`names` must be a tuple of texts; found 'loss'"),
    "fewer than no refinements": (lambda: explore([R], refine=-1), "`refine` must be an integer >= 0; found -1"),
    "continuation as a number": (lambda: explore([R], continuation=1), "`continuation` must be True or False; found 1"),
    "refinement without preferences": (
        lambda: bp.explore(PROBLEM, bp.mgda(), None, X, Y, 2, refine=2),
        "`refine` must be 0 for an algorithm that takes no preference; found 2",
    ),
    "a tour without preferences": (
        lambda: bp.explore(PROBLEM, bp.mgda(), None, X, Y, 2, continuation=True),
        "`continuation` must be False for an algorithm that takes no preference",
    ),
    "no devices": (lambda: explore([R], devices=[]), "`devices` must be a sequence of JAX devices; found []"),
    "device numbers": (lambda: explore([R], devices=[0, 1]), "`devices` must be a sequence of JAX devices; found [0, 1]"),
    "resume from nowhere": (lambda: solve(resume=True), "`directory` must be given to resume"),
    "resume as text": (lambda: explore([R], resume="yes"), "`resume` must be True or False; found 'yes'"),
    "directory in a missing folder": (lambda: solve(directory="no/such/folder"), "`directory` must be a folder for the run"),
    "directory that is a number": (lambda: solve(directory=3), "`directory` must be a path; found 3"),
    "checkpoints before the last": (
        lambda: solve(directory="no/such", save_every=-1.0),
        "`save_every` must be a number >= 0; found -1",
    ),
    "shard along nothing": (
        lambda: bp.distributed.shard(separable(), "rows"),
        "`along` must be 'tasks' or 'samples'; found 'rows'",
    ),
    "shard the tasks of a joint problem": (
        lambda: bp.distributed.shard(PROBLEM, "tasks"),
        "`problem` must be a SeparableProblem to shard its tasks",
    ),
    "shard no problem": (lambda: bp.distributed.shard(3), "`problem` must be a Problem or SeparableProblem; found 3"),
    "half a cluster": (
        lambda: bp.distributed.start("127.0.0.1:1", processes=2),
        "`process` must be given with the others; found None",
    ),
    "no cluster": (lambda: bp.distributed.start(), "`distributed.start` must join the other processes"),
    "no front to read": (lambda: bp.Front.load("no/such.npz"), "`path` must be a saved front"),
    "no runs at once": (lambda: explore([R], batch=0), "`batch` must be an integer >= 1; found 0"),
    "floor too high": (lambda: bp.preferences.energy(4, 3, floor=0.3), "`floor` must be below 1/4; found 0.3"),
    "lattice too fine": (lambda: bp.preferences.lattice(10, 30), "`divisions` must give at most 100000 vectors"),
    "ray through zero": (lambda: bp.preferences.from_ray([1.0, 0.0]), "`ray` must be strictly positive; found ray[1] = 0.0"),
    "aspiration below the reference": (
        lambda: bp.preferences.from_aspiration([1.0, 2.0], reference=1.5),
        "`levels - reference` must be strictly positive",
    ),
    "hypervolume corner": (lambda: bp.metrics.hypervolume(np.ones((2, 2)), [1.0]), "`reference` must be 2 finite numbers"),
    "points without axis": (lambda: bp.metrics.nondominated(np.ones(3)), "`values` must be points [n, S]; found shape (3,)"),
    "even preferences of one objective": (
        lambda: bp.preferences.evenly(1, 5),
        "`objectives` must be an integer >= 2; found 1",
    ),
    "no even preferences": (lambda: bp.preferences.evenly(3, 0), "`count` must be an integer >= 1; found 0"),
    "half a preference": (lambda: bp.preferences.evenly(3, 2.5), "`count` must be an integer >= 1; found 2.5"),
    "too many even preferences": (
        lambda: bp.preferences.evenly(3, 10**6),
        "`count` must be at most 100000; found 1000000",
    ),
    "even floor too high": (lambda: bp.preferences.evenly(3, 1, floor=0.5), "`floor` must be below 1/3; found 0.5"),
    # metrics of points
    "angle of other objectives": (
        lambda: bp.metrics.angle(np.ones((2, 3)), R),
        "`preference` must have one entry per objective; found 2 entries for 3 objectives",
    ),
    "angle from another reference": (
        lambda: bp.metrics.angle(np.ones((2, 2)), R, [0.0, 0.0, 0.0]),
        "`reference` must be a number or a vector of 2 values; found shape (3,)",
    ),
    "angle of one point": (lambda: bp.metrics.angle([1.0, 2.0], R), "`values` must be points [n, S]; found shape (2,)"),
    "coverage of other objectives": (
        lambda: bp.metrics.coverage(np.ones((2, 3)), np.ones((2, 2))),
        "`other` must have the 3 objectives of `values`; found 2",
    ),
    "coverage of nothing": (
        lambda: bp.metrics.coverage(np.ones((1, 2)), [[np.nan, 1.0]]),
        "`other` must hold a finite point",
    ),
    "IGD+ of other objectives": (lambda: FRONT.igd_plus(np.ones((2, 3))), "`front` must have the 2 objectives of `values`"),
    "coverage of another front": (lambda: FRONT.coverage(THREE), "`other` must have the 2 objectives of `values`; found 3"),
    # fronts
    "too few names": (
        lambda: fronts.front([R], [[[1.0, 2.0]]], names=("loss",)),
        "`names` must be 2 different names; found ['loss']",
    ),
    "a name twice": (
        lambda: fronts.front([R], [[[1.0, 2.0]]], names=("loss", "loss")),
        "`names` must be 2 different names; found ['loss', 'loss']",
    ),
    "names in one text": (
        lambda: fronts.front([R], [[[1.0, 2.0]]], names="ab"),
        "`names` must be a tuple of texts; found 'ab'",
    ),
    "numbers as names": (
        lambda: fronts.front([R], [[[1.0, 2.0]]], names=(1, 2)),
        "`names` must be a tuple of texts; found (1, 2)",
    ),
    "reference of a front": (
        lambda: fronts.front([R], [[[1.0, 2.0]]], reference=[0.0, np.inf]),
        "`reference` must be finite",
    ),
    "table in no folder": (
        lambda: FRONT.to_csv("/nowhere/at/all/front.csv"),
        "`path` must lie in an existing folder; found '/nowhere/at/all/front.csv'; create '/nowhere/at/all'",
    ),
    "table onto a folder": (lambda: FRONT.to_csv("."), "`path` must be a file; found the folder '.'"),
    "table to a number": (lambda: FRONT.to_csv(3), "`path` must be a path; found 3"),
    "column twice": (
        lambda: THREE.to_csv("unwritten.csv"),
        "`names` must differ from the other columns; found ['seed']",
    ),
    # pictures
    "misspelt kind": (
        lambda: FRONT.plot("rader"),
        "`kind` must be one of 'parallel', 'radar', 'scatter', 'convergence'; found 'rader'; did you mean 'radar'?",
    ),
    "unknown kind": (lambda: FRONT.plot("pie"), "found 'pie'; pass one of these"),
    "number as kind": (lambda: FRONT.plot(3), "`kind` must be one of"),
    "option of another kind": (
        lambda: FRONT.plot("scatter", transform="inverse"),
        "`transform` must be an option of kind='scatter' (those are objectives); "
        "found transform='inverse'; it belongs to radar",
    ),
    "unknown option": (lambda: FRONT.plot(colour="red"), "found colour='red'; see Front.plot"),
    "radar of two": (lambda: FRONT.plot("radar"), "`objectives` must be three or more for a radar; found 2"),
    "unknown transform": (
        lambda: THREE.plot("radar", transform="invers"),
        "`transform` must be one of None, 'inverse'; found 'invers'; did you mean 'inverse'?",
    ),
    "inverse of a negative value": (
        lambda: THREE.plot("radar", transform="inverse"),
        "`transform` must be None where a value is not positive; found 'inverse' and a value of -1",
    ),
    "scatter of seven": (
        lambda: SEVEN.plot("scatter"),
        "`objectives` must be 2 to 6 for a scatter matrix; found 7; pick some with objectives=[...]",
    ),
    "scatter of one": (lambda: THREE.plot("scatter", objectives=[1]), "`objectives` must be 2 to 6 for a scatter matrix"),
    "unknown objective": (
        lambda: THREE.plot(objectives=["loss", "enrgy"]),
        "`objectives` must be one of 'loss', 'energy', 'seed'; found 'enrgy'; did you mean 'energy'?",
    ),
    "objective out of range": (
        lambda: FRONT.plot(objectives=[0, 2]),
        "`objectives` must be names or integers from 0 to 1; found [0, 2]",
    ),
    "mask of objectives": (lambda: FRONT.plot(objectives=[True, False]), "`objectives` must be names or integers"),
    "objective twice": (lambda: FRONT.plot(objectives=[1, "phi_2"]), "`objectives` must be different; found [1, 'phi_2']"),
    "no objectives": (lambda: FRONT.plot(objectives=[]), "`objectives` must be a list of objectives; found []"),
    "one objective, bare": (lambda: FRONT.plot(objectives="phi_1"), "`objectives` must be a list of objectives"),
    "unknown quantity": (
        lambda: FRONT.plot("convergence", quantity="gaps"),
        "`quantity` must be one of 'values', 'gap'; found 'gaps'; did you mean 'gap'?",
    ),
    "unknown band": (
        lambda: FRONT.plot("convergence", band="std"),
        "`band` must be one of 'error', 'range', None; found 'std'",
    ),
    "objectives of the gap": (
        lambda: FRONT.plot("convergence", quantity="gap", objectives=[0]),
        "`objectives` must be None for the gap, which belongs to all; found [0]",
    ),
    "picture of failed runs": (lambda: LOST.plot(), "`front` must hold a run that ended well; found none"),
    "radar of failed runs": (lambda: LOST.plot("radar"), "`front` must hold a run that ended well; found none"),
    "scatter of failed runs": (lambda: LOST.plot("scatter"), "`front` must hold a run that ended well; found none"),
    # data
    "data folder that is not there": (
        lambda: datasets.mnist("no/such/folder"),
        "`path` must be an existing folder; found no",
    ),
    "data file that is not there": (
        lambda: datasets.fc100(path="no/such.npz"),
        "`path` must be an existing .npz file",
    ),
    "number as path": (lambda: datasets.mnist(3), "`path` must be a folder or an .npz file; found 3"),
    "BIPARETO_DATA that is not there": (
        lambda: with_data("no/such/folder", datasets.mnist),
        "`BIPARETO_DATA` must be an existing folder; found no",
    ),
    "folder without the files": (
        lambda: datasets.mnist(FOLDER.name),
        "`train-images-idx3-ubyte.gz` must be in ",
    ),
    "other bytes of that name": (
        lambda: datasets.mnist(stored("train-images-idx3-ubyte.gz", gzip.compress(b"")).parent),
        "must have the sha256 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609; found other bytes",
    ),
    "pickled images": (
        lambda: datasets.mnist(stored("own.npz", images=np.array([{}]), labels=np.zeros(1, int))),
        "must hold `images` as numbers; found dtype object",
    ),
    "text for an archive": (lambda: datasets.mnist(stored("own.npz", b"hello")), "must be a readable .npz file"),
    "unknown part": (lambda: datasets.fc100("training"), "`part` must be one of train, validation, test; found 'training'"),
    "labels beyond CIFAR-100": (
        lambda: datasets.fc100(
            "test", stored("own.npz", images=np.zeros((2, 4, 4, 3), np.uint8), labels=np.array([0, 100]))
        ),
        "`path` must hold CIFAR-100's labels 0 ... 99; found labels 0 ... 100",
    ),
    # experiments
    "seven rates": (lambda: cleaned(tasks=7), "`tasks` must be one of [5, 10]; found 7"),
    "more images than there are": (
        lambda: cleaned(sizes=(40, 20, 10)),
        "`sizes` must be positive and share out at most",
    ),
    "no test images": (lambda: cleaned(sizes=(40, 20, 0)), "`sizes` must be positive"),
    "a list of pixels": (lambda: cleaned(np.zeros(60)), "`images` must be uint8 or floats [n, ...]; found float64 (60,)"),
    "signed pixels": (
        lambda: cleaned(np.zeros((60, 4), int)),
        "`images` must be uint8 or floats [n, ...]; found int64",
    ),
    "a label too few": (
        lambda: cleaned(labels=np.zeros(59, int)),
        "`labels` must be whole numbers >= 0 [60]; found int64",
    ),
    "negative labels": (lambda: cleaned(labels=np.full(60, -1)), "`labels` must be whole numbers >= 0 [60]; found -1"),
    "grey images": (
        lambda: learned(np.zeros((60, 8, 8))),
        "`images` must be uint8 or floats [n, height, width, colours]; found float64 (60, 8, 8)",
    ),
    "real labels": (lambda: learned(labels=np.zeros(60)), "`labels` must be whole numbers [60]; found float64 (60,)"),
    "too few images of a class": (
        lambda: learned(sizes=(5, 15, 30)),
        "`sizes` must be positive and leave `ways` classes with that many images each",
    ),
    "too many ways": (lambda: learned(ways=7), "found sizes (3, 3, 3) for 7 ways, and 6 such classes"),
    "one way": (lambda: learned(ways=1), "found sizes (3, 3, 3) for 1 ways"),
    "no tasks to learn": (lambda: learned(tasks=0), "`tasks` must be an integer >= 1; found 0"),
    "no filters": (lambda: learned(channels=(2, 0)), "`channels` must be an integer >= 1; found 0"),
    "more blocks than pixels": (
        lambda: learned(channels=(2, 2, 2, 2)),
        "`channels` must have no more blocks than 8 x 8 pixels can be halved; found (2, 2, 2, 2)",
    ),
    # comparisons
    "no budget": (lambda: compared(budget=0.0), "`budget` must be a number > 0; found 0"),
    "another unit": (lambda: compared(unit="call"), "did you mean 'calls'?"),
    "no methods": (lambda: compared(methods={}), "`methods` must map names to build(step_size, preference)"),
    "a method that builds nothing": (
        lambda: compared(methods={"mine": lambda size, r: None}),
        "`methods[mine]` must build an algorithm; found None",
    ),
    "no step sizes": (lambda: compared(step_sizes=()), "`step_sizes` must be a grid of numbers; found ()"),
    "a step size twice": (lambda: compared(step_sizes=(0.1, 0.1)), "`step_sizes` must be different"),
    "a negative step size": (lambda: compared(step_sizes=(0.1, -1.0)), "`step_sizes[1]` must be a number > 0; found -1.0"),
    "a step size for another method": (lambda: compared(step_sizes={"b": 0.1}), "`step_sizes` must name ['a']; found ['b']"),
    "a judge of another kind": (lambda: compared(judge=bp.CG()), "`judge` must be a GradientDescent"),
    "never judged": (lambda: compared(points=0), "`points` must be an integer >= 1; found 0"),
    "seeds without a key to compare": (lambda: compared(seeds=2), "`key` must be given for more than one seed"),
    "a corner of two": (lambda: compared(reference=[1.0, 2.0, 3.0]), "`reference` must be a number or a vector of"),
    "a name too few": (lambda: compared(names=("one",)), "`names` must be"),
    "a preference of zero to compare": (
        lambda: compared(preferences=[[0.0, 1.0]]),
        "`preferences[0]` must be strictly positive",
    ),
    # the quadratic program
    "gram not square": (
        lambda: bp.simplex_qp(jnp.ones((3, 2))),
        "`gram` must be a square [S, S] matrix; found shape (3, 2)",
    ),
    "linear of the wrong length": (lambda: bp.simplex_qp(jnp.eye(3), jnp.ones(2)), "`linear` must "),
}


def refuse(*args, **kwargs):
    raise AssertionError("compute started")


def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", "no error"


if __name__ == "__main__":
    import sys

    sys.modules["bipareto.solver.loop"].__dict__["advance"] = refuse
    sys.modules["bipareto.comparison.judge"].__dict__["_judged"] = refuse
    sys.modules["bipareto.front.fleet"].__dict__["_advance_all"] = refuse
    sys.modules["bipareto.hypergradient.estimate"].__dict__["_estimate"] = refuse
    jax.config.update("jax_enable_x64", True)
    print(json.dumps({name: outcome(call) for name, (call, _) in WRONG.items()}))
