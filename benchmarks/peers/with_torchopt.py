"""TorchOpt: `custom_root` with its conjugate gradients; `MetaSGD` for differentiation through the steps."""

import torch
import torchopt
from torch.nn import functional

from benchmarks.peers.torch_parts import Backbone, Tasks, row, shots, stacked


def cleaning(case, device):
    tasks = Tasks(case, device)
    linear_solve = torchopt.linear_solve.solve_cg(maxiter=case.cg_steps, rtol=0.0, atol=0.0)
    optimality = torch.func.grad(tasks.training_loss)

    @torchopt.diff.implicit.custom_root(optimality, argnums=1, solve=linear_solve)
    def trained(model, x, labels):
        optimizer = torchopt.sgd(lr=case.lower_step_size)
        state = optimizer.init((model,))
        with torch.enable_grad():
            for _ in range(case.lower_steps):
                model = model.detach().requires_grad_()
                slopes = torch.autograd.grad(tasks.training_loss(model, x.detach(), labels), (model,))
                updates, state = optimizer.update(slopes, state, inplace=True)
                (model,) = torchopt.apply_updates((model.detach(),), updates, inplace=True)
        return model

    def one(labels):
        x, model = tasks.start()
        value = tasks.validation_loss(trained(model, x, labels))
        return value.detach(), torch.autograd.grad(value, x)[0]

    return lambda: stacked([one(labels) for labels in tasks.noisy])


def few_shot(case, device):
    settings = case.settings
    backbone, support, query = Backbone(case, device), shots(case.data.support, device), shots(case.data.query, device)
    head = torch.nn.Linear(case.data.y0["weight"].shape[1], settings.ways, device=device)
    for parameter in head.parameters():
        torch.nn.init.zeros_(parameter)
    optimizer = torchopt.MetaSGD(head, lr=settings.lower_step_size)

    def one(s):
        start = torchopt.extract_state_dict(head), torchopt.extract_state_dict(optimizer)
        h = backbone(support[0][s])
        for _ in range(settings.lower_steps):
            ridge = settings.ridge * sum(torch.sum(parameter**2) for parameter in head.parameters())
            optimizer.step(functional.cross_entropy(head(h), support[1][s]) + ridge)
        value = functional.cross_entropy(head(backbone(query[0][s])), query[1][s])
        gradients = torch.autograd.grad(value, tuple(backbone.parameters()))
        torchopt.recover_state_dict(head, start[0])
        torchopt.recover_state_dict(optimizer, start[1])
        return value.detach(), row(gradients)

    return lambda: stacked([one(s) for s in range(case.tasks)])
