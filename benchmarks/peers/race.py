"""One race: answers first, each against PyTorch's in float64, then times, interleaved."""

import importlib
import warnings
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import torch

import bipareto as bp
from benchmarks.measure import interleaved, warm
from benchmarks.peers import cases, ours, with_torch
from benchmarks.peers.torch_parts import done

PEERS = {"JAXopt": "jaxopt", "PyTorch": "torch", "TorchOpt": "torchopt", "Betty": "betty-ml", "BOAT": "boat-torch"}
WRONG = 1e-2  # relative; float32 after tens of conjugate gradient steps differs by up to 1e-3


def run(title: str, name: str, tasks: int, cores: int, device: str = "cpu", rounds: int = 5) -> dict:
    equal_terms(cores, device)
    case = getattr(cases, name)(tasks)
    kind = "few_shot" if name == "few_shot" else "cleaning"
    preference = np.full(tasks, 1 / tasks)
    reference = host(getattr(with_torch, kind)(case, device, torch.float64)())
    truth = host(converged(case, device))[1] if name == "toy" else None
    hypergradients = {"bipareto": ours.hypergradient(case)}
    steps = {"bipareto": ours.upper_step(case, preference)}
    warm(hypergradients["bipareto"], steps["bipareto"])
    weights = weights_for(case, preference)
    peers, absent = installed(kind, case, device)
    hypergradients |= peers
    steps |= {peer: stepping(peer, call, case, weights, device) for peer, call in peers.items()}
    moved = -case.step_size * weights(*reference) @ reference[1]
    x = host(ours.flat(start(case)))
    answer = lambda found: host((found[0], ours.flat(found[1], 1)))[1]  # noqa: E731
    return {
        "hypergradient": raced(f"{title}: hypergradient", hypergradients, answer, reference[1], truth, rounds),
        "upper step": raced(f"{title}: upper step", steps, lambda after: host(after) - x, moved, None, rounds),
        "absent": absent,
        "versions": {peer: version(package) for peer, package in PEERS.items() if peer in peers},
        "precision": "full float32, no TF32",
    }


def equal_terms(cores: int, device: str) -> None:
    """As many threads for PyTorch as JAX has cores; on a GPU full float32, which neither takes everywhere by default."""
    torch.set_num_threads(cores)
    if device == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError(f"PyTorch {torch.__version__} sees no GPU, where JAX sees {jax.devices()[0].device_kind}")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        jax.config.update("jax_default_matmul_precision", "highest")
    warnings.filterwarnings("ignore", category=FutureWarning, module="torchopt")  # printed at every call otherwise


def installed(kind, case, device):
    """Calls of all peers that can be imported and give an answer here, and the reason for the others."""
    makers = {peer: (f"with_{peer.lower().removeprefix('py')}", {}) for peer in PEERS}
    if kind == "few_shot":
        makers["PyTorch, channels last"] = ("with_torch", {"layout": torch.channels_last})
    calls, absent = {}, {}
    for peer, (module, options) in makers.items():
        try:
            call = getattr(importlib.import_module(f"benchmarks.peers.{module}"), kind)(case, device, **options)
            call()
            calls[peer] = call
        except ModuleNotFoundError as error:
            absent[peer] = str(error)
        except Exception as error:  # a peer that fails on this device must not end the race of the others
            absent[peer] = f"{type(error).__name__}: {error}".splitlines()[0]
    for peer, reason in absent.items():
        print(f"{peer} is left out: {reason}")
    return calls, absent


def converged(case: cases.Cleaning, device):
    """The hypergradient itself, without the error of finitely many steps."""
    longer = case._replace(lower_steps=10 * case.lower_steps, cg_steps=5 * case.cg_steps)
    return with_torch.cleaning(longer, device, torch.float64)()


def start(case):
    return case.data.x0 if isinstance(case, cases.FewShot) else jnp.zeros(len(case.train.labels))


def weights_for(case, preference):
    """Weights [S] of WC-MHGD with u = 2/step_size, from values and Jacobian; on the CPU, where so small a task belongs."""
    r = np.asarray(preference, np.float32)
    u = np.float32(2 / case.step_size)
    weigh = jax.jit(lambda gram, values: r * bp.simplex_qp(r[:, None] * gram * r, u * r * values))
    cpu = jax.devices("cpu")[0]

    def weights(values, jacobian):
        small = host((jacobian @ jacobian.T, values))
        return np.asarray(weigh(*(jax.device_put(part.astype(np.float32), cpu) for part in small)))

    return weights


def stepping(peer, call, case, weights, device):
    """The upper step around a peer's hypergradient, in the peer's own arrays."""
    own = jnp.asarray if peer == "JAXopt" else lambda array: torch.tensor(np.asarray(array), device=device)
    x = own(ours.flat(start(case)))

    def step():
        values, jacobian = call()
        return done(x - case.step_size * (own(weights(values, jacobian)) @ jacobian))

    return step


def host(arrays):
    """The same as arrays of numpy."""
    return jax.tree.map(lambda leaf: np.asarray(leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf), arrays)


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
        print(line(name, row), flush=True)
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
