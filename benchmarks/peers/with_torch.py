"""PyTorch itself: eager loops over tasks and steps. In float64 it is the reference for all others."""

import torch
from torch.nn import functional

from benchmarks.peers.torch_parts import Backbone, Tasks, row, shots, stacked


def cleaning(case, device, kind=torch.float32):
    tasks = Tasks(case, device, kind)

    def one(labels):
        x, model = tasks.start()
        for _ in range(case.lower_steps):
            (slope,) = torch.autograd.grad(tasks.training_loss(model, x.detach(), labels), model)
            model = (model - case.lower_step_size * slope).detach().requires_grad_()
        value = tasks.validation_loss(model)
        (b,) = torch.autograd.grad(value, model)
        (slope,) = torch.autograd.grad(tasks.training_loss(model, x, labels), model, create_graph=True)
        v = conjugate_gradients(lambda p: torch.autograd.grad(slope, model, p, retain_graph=True)[0], b, case.cg_steps)
        return value.detach(), -torch.autograd.grad(slope, x, v)[0]

    return lambda: stacked([one(labels) for labels in tasks.noisy])


def conjugate_gradients(product, b, steps):
    v, residual, p = torch.zeros_like(b), b, b
    square = torch.sum(b * b)
    for _ in range(steps):
        hp = product(p)
        length = square / torch.sum(p * hp)
        v, residual = v + length * p, residual - length * hp
        after = torch.sum(residual * residual)
        p, square = residual + after / square * p, after
    return v


def few_shot(case, device, kind=torch.float32, layout=torch.contiguous_format):
    settings = case.settings
    backbone = Backbone(case, device, kind, layout)
    support, query = (shots(part, device, kind, layout) for part in (case.data.support, case.data.query))

    def one(s):
        h = backbone(support[0][s])
        weight = torch.zeros(settings.ways, h.shape[1], dtype=kind, device=device, requires_grad=True)
        bias = torch.zeros(settings.ways, dtype=kind, device=device, requires_grad=True)
        for _ in range(settings.lower_steps):
            loss = functional.cross_entropy(functional.linear(h, weight, bias), support[1][s])
            loss = loss + settings.ridge * (torch.sum(weight**2) + torch.sum(bias**2))
            slopes = torch.autograd.grad(loss, (weight, bias), create_graph=True)
            weight, bias = weight - settings.lower_step_size * slopes[0], bias - settings.lower_step_size * slopes[1]
        value = functional.cross_entropy(functional.linear(backbone(query[0][s]), weight, bias), query[1][s])
        return value.detach(), row(torch.autograd.grad(value, tuple(backbone.parameters())))

    return lambda: stacked([one(s) for s in range(case.tasks)])
