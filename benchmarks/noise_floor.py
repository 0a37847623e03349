"""Theorem 2 on a noisy quadratic: the mean stationarity gap against K and against the batch size.

Gaps are those of the exact problem (closed form) at the iterates of stochastic MGDA, averaged over steps and seeds, so that
only the algorithm is noisy and not its measure. Draws docs/noise_floor.png.
Run with: python -m benchmarks.noise_floor
"""

import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from bipareto.solver import start

P, Q, S, N = 3, 4, 2, 64
SIZES, SEEDS, STEPS = (2, 8, 32, 128), 8, 20_000
ROOT = pathlib.Path(__file__).parents[1]


def problem(seed: int = 0):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(Q, Q)))
    a, b, t = basis @ np.diag(np.linspace(1, 2, Q)) @ basis.T, rng.normal(size=(Q, P)), rng.normal(size=(S, Q))
    centred = lambda array: array - array.mean(axis=0)  # noqa: E731
    e, f, g = centred(rng.normal(size=(N, Q, Q))), centred(rng.normal(size=(N, Q, P))), centred(rng.normal(size=(N, Q)))
    lower_data = jnp.array(0.3 * (e + e.swapaxes(1, 2)) / 2), jnp.array(f)

    def lower(x, y, data):
        e, f = data
        return 0.5 * y @ (a + jnp.mean(e, axis=0)) @ y - y @ (b + jnp.mean(f, axis=0)) @ x

    def upper(x, y, data):
        return 0.5 * jnp.mean(jnp.sum((y - t[:, None] - data) ** 2, axis=2), axis=1) + 0.5 * jnp.sum(x**2)

    def exact_gap(x):
        jacobian = x + (jnp.linalg.solve(a, b @ x) - t) @ jnp.linalg.inv(a) @ b
        return bp.stationarity_gap(jacobian @ jacobian.T)

    return bp.Problem(upper, lower, jnp.array(g), lower_data), exact_gap


def gaps(size: int) -> np.ndarray:
    """Exact gaps [seeds, steps] along the runs with batches of `size` in all roles."""
    made, exact_gap = problem()
    x, y = 0.5 * jnp.ones(P), jnp.zeros(Q)
    series = bp.StochasticNeumann(8, 0.4, batch=size)
    algorithm = bp.mgda(0.02, 0.4, 5, series, bp.Batches(size, size, size))
    oracles, state = start(made, algorithm, x, y, jax.random.key(0))

    @eqx.filter_jit
    def runs(oracles, state, keys):
        def run(key):
            def step(state, _):
                return algorithm.step(oracles, state, key)[0], exact_gap(state.x)

            return jax.lax.scan(step, state, length=STEPS)[1]

        return jax.vmap(run)(keys)

    return np.asarray(runs(oracles, state, jax.random.split(jax.random.key(size), SEEDS)))


def run() -> dict:
    with jax.enable_x64(True):
        curves = {size: gaps(size) for size in SIZES}
    k = np.unique(np.geomspace(1, STEPS, 60).astype(int))
    means = {size: np.cumsum(values, axis=1) / np.arange(1, STEPS + 1) for size, values in curves.items()}
    floors = {size: float(values[:, STEPS // 2 :].mean()) for size, values in curves.items()}
    errors = {
        size: float(values[:, STEPS // 2 :].mean(axis=1).std(ddof=1) / np.sqrt(SEEDS)) for size, values in curves.items()
    }
    slope = float(np.polyfit(np.log(SIZES), np.log(list(floors.values())), 1)[0])
    early = means[SIZES[-1]].mean(axis=0)
    rate = float(np.polyfit(np.log(np.arange(50, 1001)), np.log(early[49:1000]), 1)[0])
    print(f"floor against batch size: exponent {slope:.2f}; mean gap against K for the largest batch: exponent {rate:.2f}")
    curve = {size: means[size].mean(axis=0)[k - 1].tolist() for size in SIZES}
    return {"k": k.tolist(), "mean_gap": curve, "floor": floors, "floor_error": errors, "exponents": [slope, rate]}


def draw(results: dict) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    styles = zip(("#0072B2", "#009E73", "#E69F00", "#D55E00"), ("-", "--", "-.", ":"), strict=True)
    k = np.array(results["k"])
    for (size, curve), (colour, line) in zip(results["mean_gap"].items(), styles, strict=True):
        left.loglog(k, curve, color=colour, linestyle=line, label=f"batch {size}")
    left.loglog(k, results["mean_gap"][str(SIZES[-1])][0] / k, color="0.5", linewidth=0.8, label="1/K")
    left.set(xlabel="upper steps K", ylabel="mean exact stationarity gap", title="A term in 1/K, then a floor")
    left.legend()
    sizes, floors = np.array(SIZES), np.array(list(results["floor"].values()))
    right.errorbar(sizes, floors, 2 * np.array(list(results["floor_error"].values())), fmt="o", color="#0072B2", capsize=4)
    right.loglog(sizes, floors[0] * sizes[0] / sizes, color="0.5", linewidth=0.8, label="1/batch")
    right.set(
        xlabel="batch size (all roles)", ylabel="gap in the second half of the run", title="The floor falls with the batches"
    )
    right.set_xticks(sizes, [str(size) for size in sizes])
    right.minorticks_off()
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(ROOT / "docs" / "noise_floor.png", dpi=130)


if __name__ == "__main__":
    file = ROOT / "benchmarks" / "results" / "noise_floor.json"
    file.write_text(json.dumps(run(), indent=1) + "\n")
    draw(json.loads(file.read_text()))
    print(f"written: {file} and docs/noise_floor.png")
