"""Rates of Theorem 1 and of the lemmas, measured: 1/K, geometric in D, N, Q, cost against kappa and S.

Draws docs/rates.png and docs/cost.png. The stochastic floor is in noise_floor.py.
Run with: python -m benchmarks.rates
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import bipareto as bp
from bipareto import theory
from bipareto.theory import Constants, Setting

ROOT = pathlib.Path(__file__).parents[1]
P, S, STEPS = 3, 3, 3000
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


class Quadratic:
    """g = y'Ay/2 - y'Bx, f_s = |z - t_s|^2/2, z = (x, y): all in closed form.

    The eigenvalues of A are Chebyshev's points of [mu, L], the hard case for conjugate gradients.
    """

    def __init__(self, mu: float = 1.0, L: float = 2.0, q: int = 30, objectives: int = S, seed: int = 0):
        rng = np.random.default_rng(seed)
        basis, _ = np.linalg.qr(rng.normal(size=(q, q)))
        eigenvalues = (L + mu) / 2 - (L - mu) / 2 * np.cos(np.pi * np.arange(q) / (q - 1))
        self.a, self.b = basis * eigenvalues @ basis.T, rng.normal(size=(q, P))
        self.b *= 0.5 * L / np.linalg.norm(self.b, 2)
        self.target = rng.normal(size=(objectives, P + q))
        self.x, self.y = jnp.array(rng.normal(size=P)), jnp.array(rng.normal(size=q))
        self.mu, self.L = mu, float(np.linalg.norm(np.hstack([self.b, self.a]), 2))
        a, b, target = jnp.array(self.a), jnp.array(self.b), jnp.array(self.target)
        self.problem = bp.Problem(
            lambda x, y: 0.5 * jnp.sum((jnp.concatenate([x, y]) - target) ** 2, axis=1),
            lambda x, y: 0.5 * y @ a @ y - y @ b @ x,
        )

    def solution(self, x):
        return np.linalg.solve(self.a, self.b @ x)

    def jacobian(self, x):
        away = np.concatenate([x, self.solution(x)]) - self.target
        return away[:, :P] + np.linalg.solve(self.a, away[:, P:].T).T @ self.b

    def values(self, x):
        return 0.5 * np.sum((np.concatenate([x, self.solution(x)]) - self.target) ** 2, axis=1)

    def slope(self, x, y):
        """max_s ||grad f_s||."""
        return float(np.max(np.linalg.norm(np.concatenate([x, y]) - self.target, axis=1)))


def against_steps() -> dict:
    """Mean of ||sum_s r_s lam_s grad phi_s||^2, true gradients, against K, and the bound of Theorem 1."""
    case, r = Quadratic(), np.array([0.5, 0.3, 0.2])
    found = {}
    for name, method, lower_steps in (("CG", bp.CG(12), 60), ("NS", bp.Unrolled(), 60)):
        smooth = Constants(case.mu, case.L).L_phi
        beta = min(1 / (2 * (1 + smooth) * r.max()), 1 / (3 * smooth))
        algorithm = bp.wc_mhgd(r, beta, 1 / case.L, lower_steps, method, u="certified")
        solution = bp.solve(case.problem, algorithm, case.x, case.y, STEPS)
        xs = _path(case, solution, beta)
        true = np.array([np.sum((w @ case.jacobian(x)) ** 2) for w, x in zip(solution.history.weights, xs, strict=False)])
        drop = np.array([np.min(case.values(xs[0]) - case.values(x)) for x in xs[1:]])
        M = max(case.slope(x, case.solution(x)) for x in xs)
        setting = Setting(Constants(case.mu, case.L, 1.01 * M), beta, 1 / case.L, lower_steps, float(r.max()))
        counts, start = np.arange(1, STEPS + 1), float(np.linalg.norm(case.y - case.solution(case.x)))
        dual = np.linalg.solve(case.a, (np.concatenate([case.x, case.solution(case.x)]) - case.target)[:, P:].T)
        starts = start, float(np.linalg.norm(dual, axis=0).max())
        bound = (
            theory.cg_bound(setting, 12, counts, drop, *starts)
            if name == "CG"
            else theory.unrolled_bound(setting, counts, drop, theory.unrolled_distance(setting, start))
        )
        mean = np.cumsum(true) / counts
        shown = np.unique(np.geomspace(1, STEPS, 60).astype(int)) - 1
        slope = float(np.polyfit(np.log(counts[STEPS // 3 :]), np.log(mean[STEPS // 3 :]), 1)[0])
        found[name] = {"k": (shown + 1).tolist(), "mean": mean[shown].tolist(), "bound": bound[shown].tolist()}
        found[name]["exponent"] = slope
        print(f"{name}: mean against K, exponent {slope:.2f}; bound / mean at the end {bound[-1] / mean[-1]:.0f}")
    return found


def _path(case: Quadratic, solution: bp.Solution, beta: float) -> np.ndarray:
    """x_0 ... x_K of the run: a solution keeps only its end, so the steps are taken again and must end there."""
    x, path = np.asarray(case.x), [np.asarray(case.x)]
    for weights in solution.history.weights:
        x = x - beta * np.asarray(weights) @ case.jacobian(x)
        path.append(x)
    np.testing.assert_allclose(x, solution.x, atol=1e-3)  # the run's hypergradients are not exact
    return np.array(path)


def against_loops() -> dict:
    """Largest error of a hypergradient against D (unrolled), N (CG) and Q (Neumann), and the bounds."""
    case = Quadratic(1.0, 10.0)
    exact, y = case.jacobian(np.asarray(case.x)), case.solution(np.asarray(case.x))
    M = max(case.slope(case.x, y), case.slope(case.x, case.y))
    constants, alpha = Constants(case.mu, case.L, 2 * M), 1 / case.L  # twice: the path from y to y* may be steeper
    distance = float(np.linalg.norm(np.asarray(case.y) - y))
    slopes = np.concatenate([np.asarray(case.x), y]) - case.target
    duals = float(np.linalg.norm(np.linalg.solve(case.a, slopes[:, P:].T), axis=0).max())
    setting = lambda steps: Setting(constants, 1e-9, alpha, steps)  # noqa: E731

    def error(method, start, lower=None):
        jacobian = bp.hypergradient(case.problem, case.x, jnp.asarray(start), method, lower=lower)[1]
        return float(np.max(np.linalg.norm(np.asarray(jacobian) - exact, axis=1)))

    lower_steps, terms, cg = [5, 10, 20, 40, 80, 120, 160], [5, 10, 20, 40, 80, 120, 160], [2, 4, 6, 8, 12, 16, 20]
    return {
        "D": {
            "count": lower_steps,
            "error": [error(bp.Unrolled(), case.y, bp.GradientDescent(alpha, d)) for d in lower_steps],
            "bound": [float(theory.unrolled_error(setting(d), distance)) for d in lower_steps],
            "rate": float(1 - alpha * case.mu),
        },
        "Q": {
            "count": terms,
            "error": [error(bp.Neumann(n, alpha), y) for n in terms],
            "bound": [float(theory.neumann_error(constants, alpha, n, 0.0)) for n in terms],
            "rate": float(1 - alpha * case.mu),
        },
        "N": {
            "count": cg,
            "error": [error(bp.CG(n), y) for n in cg],
            "bound": [float(theory.cg_error(setting(1000), n, 0.0, duals)) for n in cg],
            "rate": float((np.sqrt(constants.kappa) - 1) / (np.sqrt(constants.kappa) + 1)),
        },
    }


def against_condition() -> dict:
    """Products until the error is 1e-6 of its start, against kappa: CG like its root, series and unrolling like kappa."""
    kappas, found = [3, 10, 30, 100, 300, 1000], {"CG": [], "Neumann": [], "unrolled": []}
    for kappa in kappas:
        case = Quadratic(1.0, float(kappa), q=400)
        exact, y = case.jacobian(np.asarray(case.x)), case.solution(np.asarray(case.x))
        aim = 1e-6 * np.linalg.norm(exact)

        def good(method, y=y, lower=None, case=case, exact=exact, aim=aim):
            jacobian = bp.hypergradient(case.problem, case.x, jnp.asarray(y), method, lower=lower)[1]
            return np.linalg.norm(np.asarray(jacobian) - exact) <= aim

        alpha = 1 / kappa
        found["CG"].append(_least(lambda n: good(bp.CG(n, warm_start=False)), int(20 + 20 * np.sqrt(kappa))))
        found["Neumann"].append(_least(lambda n: good(bp.Neumann(n, alpha)), 20 * kappa))  # noqa: B023
        found["unrolled"].append(
            _least(lambda n: good(bp.Unrolled(), case.y, bp.GradientDescent(alpha, n)), 20 * kappa)  # noqa: B023
        )
    exponents = {name: float(np.polyfit(np.log(kappas), np.log(counts), 1)[0]) for name, counts in found.items()}
    print("products against kappa, exponents", {name: round(value, 2) for name, value in exponents.items()})
    return {"kappa": kappas, "products": found, "exponents": exponents}


def _least(holds, start: int) -> int:
    """The smallest count up to `start` for which `holds`, to 5 %, by bisection of a geometric interval."""
    low, high = 1, start
    if not holds(high):
        raise RuntimeError(f"more than {high} steps are needed")
    while high > max(1.05 * low, low + 1):
        middle = int(np.sqrt(low * high) + 0.5) if high > 1.2 * low else (low + high) // 2
        middle = min(max(middle, low + 1), high - 1)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def against_objectives() -> dict:
    """Products with H in one upper step with CG(10), against S: a joint problem and a separable one."""
    sizes, found = [1, 2, 4, 8, 16], {"joint": [], "separable": []}
    for size in sizes:
        joint = Quadratic(objectives=size, q=4)
        tasks = bp.SeparableProblem(
            lambda x, y, t: 0.5 * jnp.sum((y - t) ** 2), lambda x, y: 0.5 * y @ y - y[0] * x[0], size, jnp.ones((size, 4))
        )
        algorithm = bp.mgda(0.01, 0.1, 1, bp.CG(10))
        for name, problem, y in (("joint", joint.problem, joint.y), ("separable", tasks, jnp.zeros((size, 4)))):
            found[name].append(bp.solve(problem, algorithm, joint.x, y, 1).oracles.hvp)
    return {"S": sizes, "products": found}


def run() -> dict:
    parts = {"steps": against_steps, "loops": against_loops, "kappa": against_condition, "objectives": against_objectives}
    with jax.enable_x64(True):
        return {name: part() for name, part in parts.items()}


def draw(results: dict) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14.5, 4.2), layout="constrained")
    for (name, curve), colour in zip(results["steps"].items(), COLOURS, strict=False):
        style = {"linestyle": "-"} if name == "CG" else {"linestyle": "", "marker": "o", "markersize": 3, "markevery": 3}
        left.loglog(curve["k"], curve["mean"], color=colour, label=f"{name}, run", **style)
        style["linestyle"] = "--" if name == "CG" else ""
        style["marker"] = "" if name == "CG" else "x"
        left.loglog(curve["k"], curve["bound"], color=colour, label=f"{name}, Theorem 1", **style)
    left.set(xlabel="upper steps K", ylabel="mean of ‖Σ rλ∇φ‖²", title="The mean falls like 1/K")
    _errors(middle, results["loops"], ("D", "Q"), "Errors fall by 1 − μ/L per step")
    _errors(right, results["loops"], ("N",), "By (√κ − 1)/(√κ + 1) per step, or faster")
    right.set_xticks(results["loops"]["N"]["count"])
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(ROOT / "docs" / "rates.png", dpi=130)

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
    kappas = results["kappa"]["kappa"]
    for (name, counts), colour, mark in zip(results["kappa"]["products"].items(), COLOURS, "os^", strict=False):
        power = results["kappa"]["exponents"][name]
        left.loglog(kappas, counts, color=colour, marker=mark, label=f"{name}: κ^{power:.2f}")
    left.set(xlabel="condition number κ", ylabel="steps to a relative error of 1e-6", title="Cost against κ")
    for (name, counts), colour, mark in zip(results["objectives"]["products"].items(), COLOURS, "os", strict=False):
        right.plot(results["objectives"]["S"], counts, color=colour, marker=mark, label=name)
    right.set(xlabel="objectives S", ylabel="products with H per upper step", title="Cost against S")
    right.set_xticks(results["objectives"]["S"])
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(ROOT / "docs" / "cost.png", dpi=130)


def _errors(axes, loops: dict, names: tuple[str, ...], title: str) -> None:
    label = {"D": "unrolled, D", "Q": "Neumann, Q", "N": "CG, N"}
    for name, colour, mark in zip(names, COLOURS, "os", strict=False):
        curve = loops[name]
        axes.semilogy(curve["count"], curve["error"], color=colour, marker=mark, label=label[name])
        bound = "Lemma 3: half the exponent" if name == "D" else "its bound"
        axes.semilogy(curve["count"], curve["bound"], color=colour, linestyle="--", label=bound)
    axes.set(xlabel="steps of the inner loop", ylabel="largest ‖error‖ of a hypergradient", title=title)


if __name__ == "__main__":
    file = ROOT / "benchmarks" / "results" / "rates.json"
    file.write_text(json.dumps(run(), indent=1) + "\n")
    draw(json.loads(file.read_text()))
    print(f"written: {file}, docs/rates.png and docs/cost.png")
