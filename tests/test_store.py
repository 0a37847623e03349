"""Nothing is lost: interrupted runs go on to the same bits, ended ones are read, wrong directories are refused."""

import contextlib
import dataclasses
import errno
import functools
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bipareto as bp
from bipareto.store import CorruptFile, NotSaved, directory, files, pack, unpack
from cases import quadratic
from test_sampling import algorithm as stochastic
from test_sampling import noisy

CASE = quadratic()
PREFERENCES = np.array([[0.3, 0.3, 0.4], [0.2, 0.6, 0.2], [0.5, 0.25, 0.25]])
METHOD = bp.wc_mhgd(PREFERENCES[0], 0.1, 0.5, 10, bp.CG(3))


class Interrupted(BaseException):
    """What ends a run in these tests; no handler of the library may catch it."""


def solve(**options):
    options = {"evaluate_every": 4} | options
    return bp.solve(CASE.problem, METHOD, CASE.x, CASE.y, options.pop("steps", 20), **options)


def explore(**options):
    options = {"batch": 2, "steps": 20} | options
    return bp.explore(CASE.problem, METHOD, PREFERENCES, CASE.x, CASE.y, **options)


def wander(**options):
    problem, x, y = noisy()
    options = {"seeds": 2, "key": jax.random.key(5), "steps": 12} | options
    return bp.explore(problem, stochastic(), np.array([[0.4, 0.6], [0.7, 0.3]]), x, y, **options)


def solutions(result):
    return [result] if isinstance(result, bp.Solution) else [run for row in result.solutions for run in row]


def same_bits(found, expected):
    """All but the clock: x, y, values, status, message, history, counts and evaluations."""
    assert len(solutions(found)) == len(solutions(expected))
    for one, other in zip(solutions(found), solutions(expected), strict=True):
        for field in dataclasses.fields(bp.Solution):
            if "seconds" not in field.name and field.name != "made":
                a, b = getattr(one, field.name), getattr(other, field.name)
                assert jax.tree.structure(a) == jax.tree.structure(b), field.name
                for leaf, like in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
                    assert np.asarray(leaf).dtype == np.asarray(like).dtype, field.name
                    assert np.asarray(leaf).tobytes() == np.asarray(like).tobytes(), field.name


@pytest.fixture(scope="module")
def expected():
    return {run: run() for run in (solve, explore, wander)}


@pytest.mark.parametrize("run", [solve, explore, wander])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_interrupted_run_goes_on_to_the_same_bits(run, at, expected, tmp_path, monkeypatch):
    place, calls = tmp_path / "run", []

    def stop(self, *arguments):
        calls.append(1)
        if len(calls) == at:
            raise Interrupted
        return keep(self, *arguments)

    keep = directory.RunDirectory.save
    monkeypatch.setattr(directory.RunDirectory, "save", stop)
    for module in ("solver.loop", "front.fleet"):  # many short chunks, however fast the machine
        monkeypatch.setattr(f"bipareto.{module}.next_length", lambda length, seconds, most: 3)
    with pytest.raises(Interrupted):
        run(directory=place, save_every=0.0)
    monkeypatch.undo()
    same_bits(run(directory=place, resume=True), expected[run])


@pytest.mark.parametrize("run", [solve, explore])
def test_a_run_that_ended_is_read_not_run(run, expected, tmp_path, monkeypatch):
    first = run(directory=tmp_path / "run")
    same_bits(first, expected[run])

    def refuse(*_):
        raise AssertionError("a step was computed")

    monkeypatch.setattr("bipareto.solver.loop.advance", refuse)
    monkeypatch.setattr("bipareto.front.fleet._advance_all", refuse)
    monkeypatch.setattr("bipareto.front.fleet._evaluate_all", refuse)
    again = run(directory=tmp_path / "run", resume=True, **({} if run is solve else {"batch": 2}))
    same_bits(again, first)
    assert [r.seconds for r in solutions(again)] == [r.seconds for r in solutions(first)]


def test_failed_runs_and_infinities_come_back_too(tmp_path):
    problem = bp.Problem(lambda x, y: jnp.log(y[:2] - 0.5), lambda x, y: jnp.sum((y - x) ** 2))
    method = bp.wc_mhgd([0.5, 0.5], 0.5, 0.25, 5, bp.CG(2))
    arguments = (problem, method, jnp.ones(2), jnp.ones(2), 40)
    failed = bp.solve(*arguments, directory=tmp_path / "run", save_every=0.0)
    assert failed.status.failed
    same_bits(bp.solve(*arguments, directory=tmp_path / "run", resume=True), failed)
    smooth = bp.HypergradientDescent(method.lower, bp.CG(3), bp.SmoothChebyshev([0.3, 0.3, 0.4]), 0.1)
    margins = bp.solve(CASE.problem, smooth, CASE.x, CASE.y, 5, directory=tmp_path / "nan")  # its margin is NaN
    assert np.isnan(margins.history.margin).all()
    assert "NaN" not in (tmp_path / "nan" / "records.jsonl").read_text()
    same_bits(bp.solve(CASE.problem, smooth, CASE.x, CASE.y, 5, directory=tmp_path / "nan", resume=True), margins)


def test_the_last_two_checkpoints_are_kept_and_records_are_json_lines(tmp_path):
    result = explore(directory=tmp_path / "run", save_every=0.0)
    names = sorted(entry.name for entry in (tmp_path / "run").iterdir())
    assert [name[:10] for name in names if name.startswith("checkpoint")] == ["checkpoint"] * 2
    assert [name for name in names if name.startswith("result")] == ["result-00000.npz", "result-00001.npz"]
    lines = [json.loads(line) for line in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    assert len(lines) == 60
    last = [line for line in lines if line["run"] == 2 and line["step"] == 20]
    np.testing.assert_array_equal(last[0]["gram"], result.solutions[2][0].history.gram[-1])


@functools.cache
def scaled(scale):
    return lambda x, y, data: CASE.problem.upper(x, y) * data * scale


def changed(**options):
    base = {"preference": PREFERENCES[0], "step": 0.1, "data": 1.0, "scale": 1.0, "steps": 3, "x": CASE.x, "key": None}
    base |= options
    problem = bp.Problem(scaled(base["scale"]), CASE.problem.lower, upper_data=jnp.full((), base["data"]))
    method = bp.wc_mhgd(base["preference"], base["step"], 0.5, 3, bp.CG(2), u=10.0)
    options = {"directory": base["directory"], "resume": True, "key": base["key"]}
    return bp.solve(problem, method, base["x"], CASE.y, base["steps"], **options)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"preference": PREFERENCES[1]}, "algorithm.weighting.preference: [0.3, 0.3, 0.4] there, [0.2, 0.6, 0.2] here"),
        ({"steps": 4}, "steps: 3 there, 4 here"),
        ({"data": 2.0}, "problem.upper_data: 1.0 there, 2.0 here"),
        ({"scale": 2.0}, "program: "),  # a number the loss closes over
        ({"x": 2 * CASE.x}, "x0: "),
        ({"key": jax.random.key(1)}, "key: null there"),
        ({"step": optax.sgd(0.1)}, "algorithm.upper: "),
    ],
)
def test_changed_settings_are_refused_with_the_difference(change, told, tmp_path):
    changed(directory=tmp_path / "run")
    changed(directory=tmp_path / "run")
    with pytest.raises(ValueError, match="hold a run of the same settings") as caught:
        changed(directory=tmp_path / "run", **change)
    assert told in str(caught.value)
    assert (
        str(caught.value).count(" there, ") == (2 if "step" in change else 1) or "optax" in str(change) or "step" in change
    )


def test_the_insides_of_an_optax_transformation_are_settings(tmp_path):
    changed(directory=tmp_path / "run", step=optax.sgd(0.1))
    with pytest.raises(ValueError, match="program: "):
        changed(directory=tmp_path / "run", step=optax.sgd(0.2))


def test_a_program_has_the_same_hash_in_another_process(tmp_path):
    """A directory made under another hash seed is resumed, and by a process that never made it."""
    code = "import sys; sys.path.insert(0, 'tests'); import jax; jax.config.update('jax_enable_x64', True)\n"
    code += "import pathlib, test_store; test_store.changed(directory=pathlib.Path(sys.argv[1]))"
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "run"], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )


def test_directories_that_cannot_serve_are_refused_before_compute(tmp_path, monkeypatch):
    monkeypatch.setattr("bipareto.solver.loop._Run", None)  # nothing may be computed
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    for place, told in (("file", "File exists"), ("missing/run", "No such file"), ("other", "thesis.tex")):
        with pytest.raises((OSError, ValueError), match=told) as caught:
            solve(directory=tmp_path / place)
        assert "`directory` must" in str(caught.value)
    with pytest.raises(OSError, match="`directory` must"):
        solve(directory="/proc/run")  # no user, not even root, can make a folder there
    assert (tmp_path / "other" / "thesis.tex").exists()
    assert sorted(entry.name for entry in (tmp_path / "other").iterdir()) in (["thesis.tex"], [".lock", "thesis.tex"])


def test_an_existing_run_is_not_overwritten_nor_shared(tmp_path):
    solve(directory=tmp_path / "run", steps=2)
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    with pytest.raises(ValueError, match="pass resume=True"):
        solve(directory=tmp_path / "run", steps=2)
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before
    held = directory.RunDirectory(tmp_path / "held", {"program": ""}, False)
    with pytest.raises(OSError, match="one run at a time"):
        solve(directory=tmp_path / "held", resume=True)
    held.close()


def test_elsewhere_a_run_goes_on_with_a_warning(tmp_path):
    solve(directory=tmp_path / "run", steps=2)
    file = tmp_path / "run" / "settings.json"
    text = json.loads(file.read_text())
    text["environment"]["device"] = "abacus"
    file.write_text(json.dumps(text))
    with pytest.warns(UserWarning, match="abacus"):
        solve(directory=tmp_path / "run", steps=2, resume=True)


OPERATIONS = [(files.os, "replace"), (files.os, "fsync"), (files, "open")]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation[1])
@pytest.mark.parametrize("at", [2, 4, 7])
def test_a_full_disk_raises_and_loses_nothing(operation, at, expected, tmp_path, monkeypatch):
    module, name = operation
    calls = []
    real = getattr(module, name, open)

    def full(*arguments, **options):
        calls.append(1)
        if len(calls) >= at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, full, raising=False)
    with pytest.raises(NotSaved, match="No space left"):
        explore(directory=tmp_path / "run", save_every=0.0)
    monkeypatch.undo()
    same_bits(explore(directory=tmp_path / "run", resume=True), expected[explore])


def test_a_result_that_cannot_be_written_comes_with_the_error(expected, tmp_path, monkeypatch):
    def full(*_):
        raise NotSaved("No space left on device")

    monkeypatch.setattr(directory.RunDirectory, "finish", full)
    with pytest.raises(NotSaved) as caught:
        solve(directory=tmp_path / "run")
    same_bits(caught.value.result, expected[solve])


def test_a_file_larger_than_allowed_fails_in_the_kernel_and_resumes(expected, tmp_path):
    """The same with a real refusal: the kernel stops the process from writing past a size."""
    code = "import sys; sys.path.insert(0, 'tests'); import jax; jax.config.update('jax_enable_x64', True)\n"
    code += "import resource, signal, pathlib, test_store; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
    code += "test_store.explore(directory=pathlib.Path(sys.argv[1]), save_every=0.0)"
    ended = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True)
    assert "NotSaved" in ended.stderr
    assert "File too large" in ended.stderr
    same_bits(explore(directory=tmp_path / "run", resume=True), expected[explore])


ENDLESS = """
import sys; sys.path.insert(0, 'tests')
import jax; jax.config.update('jax_enable_x64', True)
import pathlib, test_store
test_store.solve(directory=pathlib.Path(sys.argv[1]), steps=int(sys.argv[2]), save_every=1e9, resume=True,
    evaluate_every=None, callback=lambda done, _: print(done, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_first_and_then_acts(number, tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, tmp_path / "run", "100000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    seen = [child.stdout.readline() for _ in range(12)]
    child.send_signal(number)
    began = time.monotonic()
    done, text = child.communicate(timeout=60)
    assert child.returncode == -number or (number == signal.SIGINT and b"KeyboardInterrupt" in text)
    assert time.monotonic() - began < 30
    last = int((b"".join(seen) + done).split()[-1])
    (saved,) = (tmp_path / "run").glob("checkpoint-*.npz")  # no other was due
    assert unpack(saved.read_bytes(), saved)[1]["done"] == last


def test_a_signal_after_the_last_step_is_not_lost(tmp_path, monkeypatch, expected):
    finish = directory.RunDirectory.finish

    def interrupted(self, *arguments):
        signal.raise_signal(signal.SIGINT)
        finish(self, *arguments)

    monkeypatch.setattr(directory.RunDirectory, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve(directory=tmp_path / "run")
    monkeypatch.undo()
    same_bits(solve(directory=tmp_path / "run", resume=True), expected[solve])


def half_done(place, monkeypatch):
    """A directory with two checkpoints inside its first batch."""
    calls = []

    def stop(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise Interrupted
        return keep(self, *arguments)

    keep = directory.RunDirectory.save
    with monkeypatch.context() as patch:
        patch.setattr(directory.RunDirectory, "save", stop)
        with pytest.raises(Interrupted):
            explore(directory=place, save_every=0.0)


def flip(data, where):
    return data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :]


def archive(members, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        for name, data in members:
            file.writestr(name, data)
    return stream.getvalue()


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def header(shape):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


def sealed(name, member):
    """A hostile archive whose hash is right."""
    members = {"facts.json": b"{}", name: member}
    return archive([*members.items(), ("sha256", files._digest(members))])


def repacked(**facts):
    def change(data):
        arrays, old = unpack(data, "")
        return pack(arrays, old | facts)

    return change


HOSTILE = {
    "empty": lambda data: b"",
    "one byte": lambda data: b"P",
    "text": lambda data: b"hello " * 100,
    "zeros": lambda data: bytes(len(data)),
    "half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "first bit": lambda data: flip(data, 0),
    "bit in the middle": lambda data: flip(data, len(data) // 2),
    "bit near the end": lambda data: flip(data, len(data) - 30),
    "doubled": lambda data: data[: len(data) - 7] + data,
    "no hash": lambda data: archive([("facts.json", "{}")]),
    "wrong hash": lambda data: archive([("facts.json", "{}"), ("sha256", "0" * 64)]),
    "compressed bomb": lambda data: archive([("a.npy", bytes(10**7))], zipfile.ZIP_DEFLATED),
    "huge shape": lambda data: sealed("a.npy", header((10**15,))),
    "negative shape": lambda data: sealed("a.npy", header((-1, -8)) + bytes(8)),
    "objects": lambda data: sealed("a.npy", npy(np.array([{"a": 1}], object), allow_pickle=True)),
    "strings": lambda data: sealed("a.npy", npy(np.array(["x" * 100]))),
    "long header": lambda data: sealed("a.npy", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535),
    "facts no table": lambda data: sealed("facts.json", b"[1]"),
    "deep facts": lambda data: sealed("facts.json", b"[" * 10**5),
    "path outside": lambda data: sealed("../../outside.npy", npy(np.zeros(3))),
    "arrays missing": lambda data: pack({}, unpack(data, "")[1]),
    "arrays of another shape": lambda data: pack({name: np.zeros(7) for name in unpack(data, "")[0]}, unpack(data, "")[1]),
    "more records than there are": repacked(record_bytes=10**9),
    "negative records": repacked(record_bytes=-1),
    "records of another run": repacked(record_hash="0" * 64),
    "records no number": repacked(record_bytes="12"),
    "no width": repacked(width=None),
    "more runs at once than there are": repacked(width=10**9),
    "no time": repacked(seconds="soon"),
    "more steps than there are": lambda data: pack(*(lambda a, f: (a | {"done": a["done"] + 1}, f))(*unpack(data, ""))),
    "no verdicts": lambda data: pack(*(lambda a, f: ({n: v for n, v in a.items() if n != "code"}, f))(*unpack(data, ""))),
}


USED = {  # well-formed: found out when they are used
    "arrays missing",
    "arrays of another shape",
    "no width",
    "more runs at once than there are",
    "no time",
    "more steps than there are",
    "no verdicts",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_corrupted_and_hostile_checkpoints_are_refused(kind, expected, tmp_path, monkeypatch):
    half_done(tmp_path / "run", monkeypatch)
    newest, oldest = sorted((tmp_path / "run").glob("checkpoint-*"), reverse=True)
    whole = newest.read_bytes()
    newest.write_bytes(HOSTILE[kind](whole))
    oldest.write_bytes(HOSTILE[kind](oldest.read_bytes()))
    untouched = {entry.name: entry.read_bytes() for entry in (tmp_path / "run").iterdir()}
    told = contextlib.nullcontext() if kind in USED else pytest.warns(UserWarning, match="an older checkpoint")
    with told, pytest.raises(CorruptFile, match="must"):
        explore(directory=tmp_path / "run", resume=True)
    for name, data in untouched.items():
        assert name == "records.jsonl" or (tmp_path / "run" / name).read_bytes() == data
    newest.write_bytes(whole)
    oldest.unlink()
    same_bits(explore(directory=tmp_path / "run", resume=True), expected[explore])


def test_one_bad_checkpoint_costs_a_warning(expected, tmp_path, monkeypatch):
    half_done(tmp_path / "run", monkeypatch)
    newest = max((tmp_path / "run").glob("checkpoint-*"))
    newest.write_bytes(flip(newest.read_bytes(), 500))
    with pytest.warns(UserWarning, match="an older checkpoint is used"):
        same_bits(explore(directory=tmp_path / "run", resume=True), expected[explore])


@pytest.mark.parametrize("harm", ["truncated", "edited", "emptied"])
def test_harmed_records_are_refused(harm, tmp_path):
    explore(directory=tmp_path / "run")
    file = tmp_path / "run" / "records.jsonl"
    data = file.read_bytes()
    file.write_bytes({"truncated": data[:-10], "edited": data.replace(b'"gap": ', b'"gap": 1', 1), "emptied": b""}[harm])
    with pytest.raises(CorruptFile, match=r"records\.jsonl"):
        explore(directory=tmp_path / "run", resume=True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": 3, "environment": {}}', "[" * 100_000])
def test_harmed_settings_are_refused(text, tmp_path):
    solve(directory=tmp_path / "run", steps=2)
    (tmp_path / "run" / "settings.json").write_text(text)
    with pytest.raises(CorruptFile, match=r"settings\.json"):
        solve(directory=tmp_path / "run", steps=2, resume=True)


def test_killed_a_hundred_times(tmp_path):
    script = pathlib.Path(__file__).with_name("kill_and_resume.py")
    plain = {**os.environ, "XLA_FLAGS": ""}
    ended = subprocess.run([sys.executable, script, tmp_path, "100", "0"], capture_output=True, text=True, env=plain)
    happened = json.loads(ended.stdout)
    assert happened["kills"] == 100
    assert happened["errors"] == []
    assert happened["same"] == happened["ended"] > 0
    assert happened["records_seen"] > 50
