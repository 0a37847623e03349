"""Betty: two problems and an engine per task, by CG or through the steps (its variant that builds on `higher`)."""

import logging

import torch
from betty.configs import Config, EngineConfig
from betty.engine import Engine
from betty.logging import get_logger
from betty.problems import HigherIterativeProblem, ImplicitProblem
from torch.nn import functional

from benchmarks.peers.torch_parts import Backbone, Tasks, row, shots, stacked


class Weights(torch.nn.Module):
    def __init__(self, x):
        super().__init__()
        self.x = torch.nn.Parameter(x.detach())

    def forward(self):
        return self.x


class Validation(ImplicitProblem):
    tasks: Tasks

    def training_step(self, batch):
        self.value = self.tasks.validation_loss(self.lower.module.weight)
        return self.value

    def custom_optimizer_step(self):
        self.gradients = [parameter.grad.clone() for parameter in self.module.parameters()]


class Training(ImplicitProblem):
    tasks: Tasks

    def training_step(self, batch):
        return self.tasks.training_loss(self.module.weight, self.upper(), batch[0])


class Query(Validation):
    def training_step(self, batch):
        self.value = functional.cross_entropy(self.lower(self(batch[0])), batch[1])
        return self.value


class Support(HigherIterativeProblem):
    ridge: float

    def on_inner_loop_start(self):
        self.features = self.upper(self.train_data_loader[0][0][0])

    def training_step(self, batch):
        ridge = self.ridge * sum(torch.sum(parameter**2) for parameter in self.module.parameters())
        return functional.cross_entropy(self(self.features), batch[1]) + ridge


def found(upper, lower, steps):
    """Value and gradients after the lower steps."""
    get_logger().setLevel(logging.WARNING)
    dependencies = {"u2l": {upper: [lower]}, "l2u": {lower: [upper]}}
    Engine([upper, lower], EngineConfig(train_iters=steps), dependencies).run()
    return upper.value.detach(), upper.gradients


def cleaning(case, device):
    tasks = Tasks(case, device)

    def one(labels):
        linear = torch.nn.Linear(*case.shape, bias=False, device=device)
        torch.nn.init.zeros_(linear.weight)
        descent = torch.optim.SGD(linear.parameters(), lr=case.lower_step_size)
        settings = Config(type="cg", cg_iterations=case.cg_steps, unroll_steps=case.lower_steps)
        weights = Weights(tasks.start()[0])
        upper = Validation("upper", Config(retain_graph=True), weights, train_data_loader=[(labels,)], device=device)
        lower = Training("lower", settings, linear, descent, train_data_loader=[(labels,)], device=device)
        upper.tasks = lower.tasks = tasks
        value, gradients = found(upper, lower, case.lower_steps)
        return value, gradients[0]

    return lambda: stacked([one(labels) for labels in tasks.noisy])


def few_shot(case, device):
    settings = case.settings
    backbone, support, query = Backbone(case, device), shots(case.data.support, device), shots(case.data.query, device)

    def one(s):
        head = torch.nn.Linear(case.data.y0["weight"].shape[1], settings.ways, device=device)
        for parameter in head.parameters():
            torch.nn.init.zeros_(parameter)
        descent = torch.optim.SGD(head.parameters(), lr=settings.lower_step_size)
        seen, asked = ([(part[0][s], part[1][s])] for part in (support, query))
        upper = Query("upper", Config(first_order=False), backbone, train_data_loader=asked, device=device)
        unrolled = Config(unroll_steps=settings.lower_steps)
        lower = Support("lower", unrolled, head, descent, train_data_loader=seen, device=device)
        lower.ridge = settings.ridge
        value, gradients = found(upper, lower, settings.lower_steps)
        return value, row(gradients)

    return lambda: stacked([one(s) for s in range(case.tasks)])
