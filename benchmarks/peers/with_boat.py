"""BOAT: gradient descent (NGD) with CG, or with reverse differentiation (RAD); one call of `run_iter` per task."""

import os

import boat_torch
import torch
from torch.nn import functional

from benchmarks.peers.torch_parts import Backbone, Tasks, row, shots, stacked


class Weights(torch.nn.Module):
    def __init__(self, x):
        super().__init__()
        self.x = torch.nn.Parameter(x.detach())


def applied(model, inputs, params):
    return model(inputs) if params is None else model(inputs, params=params)


def ridge_of(model, params):
    return sum(torch.sum(part**2) for part in (model.parameters() if params is None else params))


def training_loss(feed, upper, lower, params=None):
    losses = functional.cross_entropy(applied(lower, feed["inputs"], params), feed["labels"], reduction="none")
    return torch.mean(torch.sigmoid(upper.x) * losses) + feed["ridge"] * ridge_of(lower, params)


def validation_loss(feed, upper, lower, params=None):
    return functional.cross_entropy(applied(lower, feed["inputs"], params), feed["labels"])


def support_loss(feed, upper, lower, params=None):
    return validation_loss(feed, upper, lower, params) + feed["ridge"] * ridge_of(lower, params)


def solver(device, upper, lower, lower_loss, operation, lower_step_size, lower_steps, cg_steps=1):
    """A function of the data of one task that returns its value and the gradients of all parameters of `upper`."""
    for parameter in lower.parameters():
        torch.nn.init.zeros_(parameter)
    settings = {
        "fo_op": None,
        "gm_op": ["NGD"],
        "na_op": [operation],
        "lower_level_model": lower,
        "upper_level_model": upper,
        "lower_level_var": list(lower.parameters()),
        "upper_level_var": list(upper.parameters()),
        "lower_level_opt": torch.optim.SGD(lower.parameters(), lr=lower_step_size),
        "upper_level_opt": torch.optim.SGD(upper.parameters(), lr=1.0),
        "lower_iters": lower_steps,
        "CG": {"k": cg_steps, "tolerance": 0.0},
        "GDA": {"alpha_init": 0.0, "alpha_decay": 0.9},
        "RGT": {"truncate_iter": 0},
        "accumulate_grad": False,
        "copy_last_param": False,
        "return_grad": True,
        "device": device,
        "loss_log_path": os.devnull,
    }
    losses = {
        "lower_level_loss": {"function": f"{__name__}.{lower_loss.__name__}"},
        "upper_level_loss": {"function": f"{__name__}.{validation_loss.__name__}"},
    }
    problem = boat_torch.Problem(settings, losses)
    problem.build_ll_solver()
    problem.build_ul_solver()

    def run(lower_feed, upper_feed):
        upper.zero_grad()
        gradients, _ = problem.run_iter(lower_feed, upper_feed, current_iter=0)
        value = problem._log_results[-1][-1]["gradient_operator_results"]["upper_loss"]
        return torch.as_tensor(value, device=device), [gradient.detach().clone() for gradient in gradients]

    return run


def cleaning(case, device):
    tasks = Tasks(case, device)
    lower = torch.nn.Linear(*case.shape, bias=False, device=device)
    weights = Weights(tasks.start()[0])
    run = solver(device, weights, lower, training_loss, "CG", case.lower_step_size, case.lower_steps, case.cg_steps)
    upper_feed = {"inputs": tasks.clean, "labels": tasks.truth}

    def one(labels):
        value, gradients = run({"inputs": tasks.images, "labels": labels, "ridge": case.ridge}, upper_feed)
        return value, gradients[0]

    return lambda: stacked([one(labels) for labels in tasks.noisy])


def few_shot(case, device):
    settings = case.settings
    backbone, support, query = Backbone(case, device), shots(case.data.support, device), shots(case.data.query, device)
    head = torch.nn.Linear(case.data.y0["weight"].shape[1], settings.ways, device=device)
    run = solver(device, backbone, head, support_loss, "RAD", settings.lower_step_size, settings.lower_steps)

    def one(s):
        lower_feed = {"inputs": backbone(support[0][s]), "labels": support[1][s], "ridge": settings.ridge}
        value, gradients = run(lower_feed, {"inputs": backbone(query[0][s]), "labels": query[1][s]})
        return value, row(gradients)

    return lambda: stacked([one(s) for s in range(case.tasks)])
