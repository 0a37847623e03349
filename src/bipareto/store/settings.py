"""What decides the numbers of a run, as a flat table that can be stored, compared and read."""

import dataclasses
import hashlib
import json
import platform
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bipareto.distributed import fetch
from bipareto.errors import message


def describe(name: str, node: Any) -> dict[str, Any]:
    """Plain entries for every setting inside `node`: small arrays as numbers, large ones by their hash."""
    if node is None or isinstance(node, (bool, int, float, str)):
        return {name: node}
    if isinstance(node, (np.ndarray, np.generic, jax.Array)):
        return {name: _array(node)}
    if dataclasses.is_dataclass(node):
        inside = [(field.name, getattr(node, field.name)) for field in dataclasses.fields(node)]
    elif isinstance(node, dict):
        inside = list(node.items())
    elif isinstance(node, (tuple, list)):
        inside = list(zip(getattr(node, "_fields", range(len(node))), node, strict=True))
    else:
        return {name: getattr(node, "__qualname__", type(node).__name__)}
    table = {name: type(node).__name__} if dataclasses.is_dataclass(node) else {}
    for key, value in inside:
        table |= describe(f"{name}.{key}", value)
    return table


def program(function: Callable, *arguments: Any) -> str:
    """The hash of what a function computes: its jaxpr and the numbers it closes over.

    The user's losses and the insides of optax transformations are functions; this sees them where names would not.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    total = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", str(closed.jaxpr)).encode())
    for constant in closed.consts:
        total.update(json.dumps(_array(constant)).encode())
    return total.hexdigest()


def environment() -> dict[str, Any]:
    """Where a run was made: the same bits are promised on the same, similar numbers anywhere."""
    return {
        "jax": jax.__version__,
        "x64": bool(jax.config.read("jax_enable_x64")),
        "device": jax.devices()[0].device_kind,
        "devices": jax.device_count(),
        "processes": jax.process_count(),
        "machine": platform.machine(),
    }


def difference(stored: dict[str, Any], given: dict[str, Any]) -> list[str]:
    """One line for every entry that differs."""
    absent = object()
    shown = lambda value: "absent" if value is absent else json.dumps(value)  # noqa: E731
    names = sorted(stored.keys() | given.keys())
    pairs = [(name, stored.get(name, absent), given.get(name, absent)) for name in names]
    return [f"{name}: {shown(old)} there, {shown(new)} here" for name, old, new in pairs if shown(old) != shown(new)]


def refuse_changes(directory: Any, stored: dict[str, Any], given: dict[str, Any]) -> None:
    changed = difference(stored, given)
    if len(changed) > 1:  # a changed setting changes the program too: name the setting
        changed = [line for line in changed if not line.startswith("program:")]
    if changed:
        remedy = "use the stored settings, or another directory for this run"
        raise ValueError(message("directory", f"hold a run of the same settings ({directory})", "; ".join(changed), remedy))


def _array(array: Any) -> Any:
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = fetch(array)
    if array.size <= 16 and array.dtype.kind in "biuf":
        return json.loads(json.dumps(array.tolist()))
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.dtype}{list(array.shape)} sha256:{digest[:16]}"
