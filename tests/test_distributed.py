"""The same numbers on 1, 2, 4 and 8 devices, in one process or two, with the runs, the tasks or the samples divided."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bipareto as bp
from bipareto import distributed
from cases import quadratic, separable_quadratic

SCRIPT = pathlib.Path(__file__).with_name("spread_out.py")


def launch(*arguments):
    """A process of its own, which sees only the devices it asks for."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen([sys.executable, SCRIPT, *map(str, arguments)], env=quiet, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def on_devices(tmp_path_factory):
    out = tmp_path_factory.mktemp("devices") / "found.json"
    child = launch("devices", out)
    _, text = child.communicate(timeout=600)
    assert child.returncode == 0, text
    return json.loads(out.read_text())


def same(found, expected):
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("explored on 2", "explored on 1"),
        ("explored on 4", "explored on 1"),
        ("explored on 8", "explored on 1"),
        ("explored in batches", "explored on 1"),
        ("keyed on 8", "keyed on 1"),
        ("solved by tasks", "solved alone"),
        ("solved by samples", "solved alone"),
    ],
)
def test_devices_give_the_numbers_of_one(on_devices, name, like):
    same(on_devices[name], on_devices[like])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_two_processes_give_the_numbers_of_one_and_end_and_resume_together(on_devices, tmp_path):
    def both(mode):
        port = free_port()
        children = [launch("processes", tmp_path / f"{number}.json", number, port, mode) for number in range(2)]
        texts = [child.communicate(timeout=600)[1] for child in children]
        return [child.returncode for child in children], texts

    codes, texts = both("interrupt")  # only process 1 gets the signal
    assert codes == [-15, -15], texts
    assert sorted(entry.name for entry in (tmp_path / "run").glob("*.npz")) == ["checkpoint-00000001.npz"]
    codes, texts = both("go on")
    assert codes == [0, 0], texts
    for number in range(2):
        found = json.loads((tmp_path / f"{number}.json").read_text())
        same(found["explored"], on_devices["explored on 1"])
        same(found["solved by tasks"], on_devices["solved alone"])
    names = {entry.name for entry in (tmp_path / "run").iterdir()}
    assert names == {".lock", "settings.json", "records.jsonl", "checkpoint-00000001.npz", "result-00000.npz"}


def test_sharding_keeps_the_problem(monkeypatch):
    case = separable_quadratic(objectives=3)
    for along in ("tasks", "samples"):
        shared = distributed.shard(case.problem, along)
        np.testing.assert_array_equal(
            *(bp.hypergradient(problem, case.x, case.y, bp.CG(6))[1] for problem in (shared, case.problem))
        )


def test_what_is_shared_between_processes_is_itself_in_one():
    assert distributed.from_first(lambda: [b"a", b""]) == [b"a", b""]
    assert distributed.agree(1.0, 2.0) == (1.0, 2.0)
    assert distributed.is_first()
    tree = distributed.fetch({"a": jnp.arange(3)})
    np.testing.assert_array_equal(tree["a"], [0, 1, 2])
    assert isinstance(tree["a"], np.ndarray)
    with pytest.raises(ValueError, match="`devices` must"):
        distributed.mesh([])
    with pytest.raises(TypeError, match="be a SeparableProblem"):
        distributed.shard(quadratic().problem, "tasks")
    assert len(jax.devices()) == 1
