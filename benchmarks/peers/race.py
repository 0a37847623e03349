"""One race: answers first, each against PyTorch's in float64, then times, interleaved."""

import importlib
import warnings
from importlib.metadata import version

import jax
import numpy as np
import torch

import bipareto as bp
from benchmarks.measure import interleaved
from benchmarks.peers import cases, ours, with_torch

PEERS = {"JAXopt": "jaxopt", "PyTorch": "torch", "TorchOpt": "torchopt", "Betty": "betty-ml", "BOAT": "boat-torch"}
WRONG = 1e-2  # relative; float32 after tens of conjugate gradient steps differs by up to 1e-3


def run(name: str, tasks: int, cores: int, rounds: int = 5) -> dict:
    torch.set_num_threads(cores)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torchopt")  # printed at every call otherwise
    case = cases.toy() if name == "toy" else getattr(cases, name)(tasks)
    kind = "few_shot" if name == "few_shot" else "cleaning"
    preference = np.full(tasks, 1 / tasks)
    peers, absent = installed(kind, case)
    reference = getattr(with_torch, kind)(case, torch.float64)()
    truth = converged(case)[1] if name == "toy" else None
    hypergradients = {"bipareto": ours.hypergradient(case)} | peers
    steps = {"bipareto": ours.upper_step(case, preference)}
    steps |= {peer: stepping(call, case, preference) for peer, call in peers.items()}
    moved = reference_step(reference, case, preference)
    title = f"{name}, S = {tasks}, cores = {cores}"
    return {
        "hypergradient": raced(f"{title}: hypergradient", hypergradients, lambda r: r[1], reference[1], truth, rounds),
        "upper step": raced(f"{title}: upper step", steps, lambda x: x - start(case), moved, None, rounds),
        "absent": absent,
        "versions": {peer: version(package) for peer, package in PEERS.items() if peer in peers},
    }


def installed(kind, case):
    """Calls of all peers that can be imported, and the reason for the others."""
    calls, absent = {}, {}
    for peer in PEERS:
        module = "with_" + peer.lower().removeprefix("py")
        try:
            calls[peer] = getattr(importlib.import_module(f"benchmarks.peers.{module}"), kind)(case)
        except ModuleNotFoundError as error:
            absent[peer] = str(error)
            print(f"{peer} is left out: {error}")
    if kind == "few_shot":
        calls["PyTorch, channels last"] = with_torch.few_shot(case, layout=torch.channels_last)
    return calls, absent


def converged(case: cases.Cleaning):
    """The hypergradient itself, without the error of finitely many steps."""
    return with_torch.cleaning(case._replace(lower_steps=10 * case.lower_steps, cg_steps=5 * case.cg_steps), torch.float64)()


def start(case):
    if isinstance(case, cases.FewShot):
        return ours.flat(jax.tree.map(lambda leaf: leaf[None], case.data.x0))[0]
    return np.zeros(len(case.train.labels), np.float32)


def weights_for(case, preference):
    """Weights [S] of WC-MHGD with u = 2/step_size, from values and Jacobian."""
    r = np.asarray(preference, np.float32)
    u = np.float32(2 / case.step_size)
    weigh = jax.jit(lambda gram, values: r * bp.simplex_qp(r[:, None] * gram * r, u * r * values))

    def weights(values, jacobian):
        return np.asarray(weigh((jacobian @ jacobian.T).astype(np.float32), values.astype(np.float32)))

    return weights


def stepping(call, case, preference):
    """The upper step around a peer's hypergradient."""
    weights, x = weights_for(case, preference), start(case)

    def step():
        values, jacobian = call()
        return x - np.float32(case.step_size) * (weights(values, jacobian) @ jacobian)

    return step


def reference_step(reference, case, preference):
    """How far x moves, from the reference's hypergradient."""
    return -case.step_size * weights_for(case, preference)(*reference) @ reference[1]


def raced(title, calls, answer, reference, truth, rounds):
    answers = {name: answer(call()) for name, call in calls.items()}
    times = interleaved(calls, rounds)
    print(f"\n{title}")
    table = {}
    for name in calls:
        ratios = times[name] / times["bipareto"]
        row = {"seconds": spread(times[name]), "ratio": spread(ratios), "difference": relative(answers[name], reference)}
        if truth is not None:
            row["error"] = relative(answers[name], truth)
        row["wrong"] = not row["difference"] < WRONG
        table[name] = row
        print(line(name, row))
    return table


def spread(values):
    return {"median": float(np.median(values)), "min": float(np.min(values)), "max": float(np.max(values))}


def relative(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def line(name, row):
    seconds, ratio = row["seconds"], row["ratio"]
    error = f"  from the converged {row['error']:.3f}" if "error" in row else ""
    return (
        f"{name:<23} s {seconds['median']:.4f} ({seconds['min']:.4f}..{seconds['max']:.4f})  "
        f"ratio {ratio['median']:.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})  "
        f"from float64 {row['difference']:.1e}{error}{'  WRONG' if row['wrong'] else ''}"
    )
