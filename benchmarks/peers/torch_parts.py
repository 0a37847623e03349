"""The losses in PyTorch, shared by all peers that are built on it."""

import numpy as np
import torch
from torch.nn import functional


class Tasks:
    """Images, labels and losses of hyper-cleaning. A model is [classes, pixels], as PyTorch's linear layers have it."""

    def __init__(self, case, device, kind=torch.float32):
        self.case, self.like = case, {"dtype": kind, "device": device}
        self.images, self.clean = (torch.tensor(part.images, **self.like) for part in (case.train, case.validation))
        self.noisy = torch.tensor(case.noisy, device=device).long()
        self.truth = torch.tensor(case.validation.labels, device=device).long()

    def start(self):
        """x and the model of one task."""
        sizes = len(self.images), self.case.shape[::-1]
        return tuple(torch.zeros(size, requires_grad=True, **self.like) for size in sizes)

    def training_loss(self, model, x, labels):
        losses = functional.cross_entropy(self.images @ model.T, labels, reduction="none")
        return torch.mean(torch.sigmoid(x) * losses) + self.case.ridge * torch.sum(model**2)

    def validation_loss(self, model):
        return functional.cross_entropy(self.clean @ model.T, self.truth)


class Backbone(torch.nn.Module):
    """Convolution, batch norm by the statistics of the batch, ReLU and max-pool, once per block; features last."""

    def __init__(self, case, device, kind=torch.float32, layout=torch.contiguous_format):
        super().__init__()
        blocks = []
        for _, block in sorted(case.data.x0.items()):
            kernel = torch.tensor(np.asarray(block["kernel"])).permute(3, 2, 0, 1).contiguous()
            outputs, inputs = kernel.shape[:2]
            convolution = torch.nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
            convolution.weight = torch.nn.Parameter(kernel)
            norm = torch.nn.BatchNorm2d(outputs, track_running_stats=False)
            blocks += [convolution, norm, torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        self.blocks = torch.nn.Sequential(*blocks).to(device=device, dtype=kind, memory_format=layout)

    def forward(self, images):
        return self.blocks(images).flatten(1)


def shots(part, device, kind=torch.float32, layout=torch.contiguous_format):
    """Images [n, colours, height, width] and labels [n] of every task."""
    images = torch.tensor(part.images, dtype=kind, device=device).permute(0, 1, 4, 2, 3)
    return [task.contiguous(memory_format=layout) for task in images], torch.tensor(part.labels, device=device).long()


def row(gradients):
    """One row of the Jacobian in the order of `ours.flat`: kernels as height, width, inputs, outputs."""
    return torch.cat([(g.permute(2, 3, 1, 0) if g.ndim == 4 else g).reshape(-1) for g in gradients])


def stacked(rows):
    """Values [S] and Jacobian [S, p] of pairs."""
    values, gradients = zip(*rows, strict=True)
    return torch.stack(values), done(torch.stack(gradients))


def done(array):
    """The array, when it is there: a GPU works while Python goes on."""
    if isinstance(array, torch.Tensor) and array.is_cuda:
        torch.cuda.synchronize()
    return array
