"""The command line: what it prints, stores, resumes and rebuilds."""

import dataclasses
import io
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import types

import equinox as eqx
import httpx
import jax
import numpy as np
import pytest

import bipareto as bp
from bipareto.cli import machine, main, methods, store
from bipareto.cli.parse import layered, parse
from bipareto.cli.settings import ALGORITHMS, COMMANDS, FIGURES, HYPERGRADIENTS, PRESETS, PROBLEMS
from bipareto.cli.show import rendered
from bipareto.experiments import hyper_cleaning, meta_learning, reproduce
from bipareto.experiments.small import quadratic, quadratic_optimum
from bipareto.progress import Row, Update
from served import listening

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLE = f"{ROOT / 'examples' / 'ridge_setup.py'}:setup"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setenv(machine.SWITCH, "off")


def said(capsys, *words, code=0):
    assert main([str(word) for word in words]) == code
    return capsys.readouterr()


def document(capsys, *words, code=0):
    return json.loads(said(capsys, *words, "--json", "--quiet", code=code).out)


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    """The folder of a user's problem explored for three preferences."""
    folder = tmp_path_factory.mktemp("cli") / "runs" / "cities"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(machine.SWITCH, "off")
        words = [
            "explore",
            "--problem",
            EXAMPLE,
            "--steps",
            "5",
            "--preferences",
            "focused",
            "--out",
            str(folder),
            "--quiet",
        ]
        assert main(words) == 0
    return folder


def test_help_of_every_command_comes_without_jax():
    code = (
        "import sys; from bipareto.cli import main; from bipareto.cli.settings import COMMANDS\n"
        "assert main([]) == main(['--help']) == main(['--version']) == 0\n"
        "assert all(main([name, '--help']) == 0 for name in COMMANDS)\n"
        "assert main(['solve', '--stpes', '3']) == main(['nonsense']) == 2\n"
        "print([name for name in ('jax', 'numpy', 'rich', 'equinox') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name, cls in COMMANDS.items():
        assert f"usage: bipareto {name}" in done.stdout
        assert cls.__doc__ in " ".join(done.stdout.split())


def test_public_names_are_the_same_whatever_was_imported_first():
    code = (
        "import pkgutil, importlib, bipareto\n"
        "first = [m.name for m in pkgutil.iter_modules(bipareto.__path__, 'bipareto.') if 'public' not in m.name]\n"
        "[importlib.import_module(name) for name in first if not name.endswith(('__main__', 'report'))]\n"
        "from bipareto import public\n"
        "assert [n for n in public.__all__ if getattr(bipareto, n) is not getattr(public, n)] == []\n"
        "assert callable(bipareto.hypergradient) and set(public.__all__) <= set(dir(bipareto))\n"
        "from bipareto import *\n"
        "assert solve is bipareto.solve and not hasattr(bipareto, 'nonsense')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_names_that_need_no_jax_are_the_librarys():
    assert set(FIGURES) == set(reproduce.FIGURES)
    assert set(ALGORITHMS) == {name for name in bp.algorithms.__all__ if name != "HypergradientDescent"}
    assert set(PRESETS) == set(hyper_cleaning.PRESETS) == set(meta_learning.PRESETS)
    assert set(HYPERGRADIENTS) == set(methods._HYPERGRADIENTS)


def test_list_names_everything(capsys):
    shown = said(capsys, "list").out
    assert all(f"  {name} " in shown for name in (*PROBLEMS, *ALGORITHMS, *FIGURES))
    assert "geometry" not in said(capsys, "list", "algorithms").out
    assert set(document(capsys, "list")["figures"]) == set(FIGURES)


def test_doctor_checks_itself_against_an_exact_answer(capsys, monkeypatch):
    monkeypatch.setenv("BIPARETO_DATA", "/nowhere")
    found = document(capsys, "doctor")
    assert found["healthy"]
    assert "`BIPARETO_DATA` must be an existing folder" in found["data"]["mnist"]
    monkeypatch.delenv("BIPARETO_DATA")
    shown = said(capsys, "doctor").out
    assert jax.__version__ in shown
    assert "right (off the exact answer by" in shown
    monkeypatch.setattr("bipareto.cli.looking.quadratic_optimum", lambda r: quadratic_optimum(r) + 0.01)
    assert "WRONG" in said(capsys, "doctor", code=1).out


def test_the_quadratic_has_the_optimum_it_claims():
    problem, x0, y0 = quadratic()
    for r in ([0.7, 0.3], [0.05, 0.95]):
        solution = bp.solve(problem, bp.wc_mhgd(r, 0.5, 0.25, 20), x0, y0, 300)
        np.testing.assert_allclose(solution.values, quadratic_optimum(r), rtol=1e-6)
        assert r[0] * solution.values[0] == pytest.approx(r[1] * solution.values[1], rel=1e-6)


def test_solve_prints_text_or_one_json_document(capsys):
    words = ["solve", "--problem", "quadratic", "--preference", "0.7", "0.3", "--steps", "300"]
    found = document(capsys, *words)
    np.testing.assert_allclose(found["values"], [[quadratic_optimum([0.7, 0.3])]], rtol=1e-6)
    assert found["status"] == [["COMPLETED"]]
    assert found["settings"]["step_size"] == 0.5
    assert found["oracles"][0][0]["hvp"] > 0
    shown = said(capsys, *words)
    assert "COMPLETED after 300 steps" in shown.out
    assert "distance to A" in shown.out
    assert "step 300/300" in shown.err
    assert "weights" in shown.err
    failed = said(capsys, *words, "--step-size", "1e200", "--json", "--quiet", code=1)
    assert json.loads(failed.out)["status"] != [["COMPLETED"]]
    assert failed.err.startswith("the run failed: ")


def test_presets_come_before_the_file_and_flags_after_it(capsys, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('problem = "quadratic"\nstep-size = 0.3\nlower_steps = 10\nsteps = 4\nhypergradient = "neumann"\n')
    found = document(capsys, "solve", "--config", file, "--lower-steps", "7", "--hypergradient-steps", "3")["settings"]
    assert (found["lower_step_size"], found["step_size"], found["lower_steps"]) == (0.25, 0.3, 7)
    assert (found["steps"], found["hypergradient"], found["hypergradient_steps"]) == (4, "neumann", 3)


def test_a_file_may_hold_what_flags_may(tmp_path):
    file = tmp_path / "settings.toml"
    words = {
        "preferences = [[0.2, 0.8], [1, 1]]": ["--preferences", "0.2,0.8", "1,1"],
        'preferences = "focused"\npeak = 0.9': ["--preferences", "focused", "--peak", "0.9"],
        "preferences = 5\ncontinuation = true": ["--preferences", "5", "--continuation"],
        'u = "prox"\nreference = -1.5\nx64 = true': ["--u", "prox", "--reference", "-1.5", "--x64"],
        "u = 3\nweights = [0, 1]\nsteps = 7\nseed = 0": ["--u=3", "--weights", "0", "1", "--steps", "7", "--seed", "0"],
    }
    for content, flags in words.items():
        file.write_text(content)
        _, from_file = parse(["explore", "--config", str(file)])
        _, from_flags = parse(["explore", *flags])
        assert layered(from_file) == layered(from_flags) != {}


def test_the_presets_build_the_experiments_own_algorithms(data_folder, monkeypatch):
    monkeypatch.setenv("BIPARETO_DATA", str(data_folder))
    for name, module in (("hyper-cleaning", hyper_cleaning), ("meta-learning", meta_learning)):
        made = store.prepare("explore", {"problem": name, "preset": "quick"})
        settings = module.PRESETS["quick"]
        assert eqx.tree_equal(made.algorithm, module.algorithm(settings, np.full(5, 0.2)))
        assert (made.options["steps"], made.options["peak"]) == (settings.steps, settings.peak)


EQUAL = (0.5, 0.5)
BUILT = {
    "wc_mhgd": ({"u": 3.0, "reference": (1.0,)}, lambda: bp.wc_mhgd(EQUAL, u=3.0, reference=1.0)),
    "mgda": ({"lower_batch": 3, "cross_batch": 2}, lambda: bp.mgda(batches=bp.Batches(lower=3, cross=2))),
    "linear": ({"step_size": 0.3}, lambda: bp.linear(EQUAL, 0.3)),
    "aid": ({"hypergradient_steps": 4}, lambda: bp.aid(EQUAL, hypergradient=bp.CG(4))),
    "itd": ({"weights": (1.0, 3.0)}, lambda: bp.itd((1.0, 3.0))),
    "stocbio": ({"hypergradient_batch": 4}, lambda: bp.stocbio(EQUAL, hypergradient=bp.StochasticNeumann(batch=4))),
    "amigo": ({"hypergradient_step_size": 0.2}, lambda: bp.amigo(EQUAL, hypergradient=bp.AdjointDescent(step_size=0.2))),
    "soba": ({"adjoint_step_size": 0.2}, lambda: bp.soba(EQUAL, adjoint_step_size=0.2)),
    "stable": ({"tau": 0.4, "bound": 3.0, "convexity": 0.1}, lambda: bp.stable(EQUAL, tau=0.4, bound=3.0, convexity=0.1)),
    "moml": ({"lower_steps": 3}, lambda: bp.moml(lower_steps=3)),
    "gmoba": ({"adjoint_step_size": 0.2, "cross_batch": 3}, lambda: bp.gmoba(0.1, 0.1, 0.2, bp.Batches(cross=3))),
    "moco": ({"tracking": 0.5, "weights_step": 0.2, "rho": 0.1}, lambda: bp.moco(tracking=0.5, weights_step=0.2, rho=0.1)),
    "forum": ({"rho": 2.0, "averaging": 0.5}, lambda: bp.forum(rho=2.0, averaging=0.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", ALGORITHMS)
def test_options_build_the_algorithm_they_name(name):
    given, expected = BUILT[name]
    built, used = methods.build(name, given, {}, 2)
    assert eqx.tree_equal(built, expected())
    assert given.items() <= used.items()
    again, same = methods.build(name, used, {}, 2)  # what is stored builds the same
    assert eqx.tree_equal(again, built)
    assert same == used


def test_a_problems_defaults_apply_where_they_fit():
    defaults = {"hypergradient": "stochastic-neumann", "hypergradient_steps": 3, "hypergradient_batch": 8, "lower_batch": 4}
    expected = bp.mgda(hypergradient=bp.StochasticNeumann(3, batch=8), batches=bp.Batches(lower=4))
    assert eqx.tree_equal(methods.build("mgda", {}, defaults, 2)[0], expected)
    assert eqx.tree_equal(methods.build("moml", {}, defaults, 2)[0], bp.moml())
    changed = methods.build("mgda", {"hypergradient": "cg"}, defaults, 2)[0]
    assert eqx.tree_equal(changed, bp.mgda(batches=bp.Batches(lower=4)))


def test_a_users_problem_of_thirty_lines_is_explored(explored, capsys):
    assert len((ROOT / "examples" / "ridge_setup.py").read_text().splitlines()) <= 30
    kept = json.loads((explored / "command.json").read_text())
    assert kept["settings"]["problem"] == EXAMPLE
    assert kept["command"].startswith("bipareto explore --problem ")
    front = bp.Front.load(explored / "front.npz")
    assert front.names == ("Oslo", "Lima", "Pune")
    assert np.argmin(front.values[:, 0], axis=0).tolist() == [0, 1, 2]
    words = ["explore", "--problem", EXAMPLE, "--steps", "5", "--preferences", "focused", "--out", explored]
    assert "be a new folder" in said(capsys, *words, code=2).err
    np.testing.assert_array_equal(document(capsys, *words, "--resume")["values"], front.values)
    assert "steps: 5 there, 6 here" in said(capsys, *words, "--resume", "--steps", "6", code=2).err


def test_certificates_are_of_the_run(explored, capsys, monkeypatch):
    front, made, _ = rebuilt = store.rebuilt(explored)
    monkeypatch.setattr(store, "rebuilt", lambda _: rebuilt)  # the same functions: compiled once
    found = document(capsys, "certify", explored)["certificates"]
    run = front.solutions[1][0]
    expected = bp.theory.certify(made.setup.problem, made.algorithm.prefer(front.preferences[1]), run)
    assert (found[1]["gap"], found[1]["values"], len(found)) == (expected.gap, expected.values.tolist(), 3)
    assert store.read(explored)[1]["certificates"] == found


def test_report_and_serve_get_the_front_and_its_facts(explored, capsys, monkeypatch, tmp_path):
    calls = []

    @dataclasses.dataclass
    class Run:
        name: str
        front: bp.Front
        facts: dict

    def write_report(runs, path):
        calls.append(runs)
        return path

    def serve(front, *, save, facts, **options):
        nearest = front.resolve([0.2, 0.2, 0.6], steps=3, progress=False)
        rows = np.concatenate([front.preferences, [[0.2, 0.2, 0.6]]])
        save(dataclasses.replace(front, preferences=rows, solutions=[*front.solutions, [nearest]]))
        calls.append((facts, options))

    fake = types.SimpleNamespace(Run=Run, write_report=write_report, serve=serve)
    monkeypatch.setitem(sys.modules, "bipareto.report", fake)
    target = tmp_path / "both.html"
    assert document(capsys, "report", explored, explored, "--to", target)["report"] == str(target)
    assert [run.name for run in calls[0]] == ["cities", "cities"]
    assert calls[0][0].facts["settings"]["steps"] == 5
    before = (explored / "front.npz").read_bytes()
    (explored / "certificates.json").write_text("[{}, {}, {}]")
    said(capsys, "serve", explored, "--port", "8123", "--steps", "7")
    assert calls[1][1] == {"port": 8123, "steps": 7, "allow_remote": False, "open_browser": False}
    grown, facts = store.read(explored)
    assert len(grown.solutions) == 4
    assert facts["certificates"] == [{}, {}, {}, None]
    (explored / "certificates.json").unlink()
    words = ["explore", "--problem", EXAMPLE, "--steps", "5", "--preferences", "focused", "--out", explored, "--resume"]
    said(capsys, *words, "--quiet")  # a front that grew on the page is not overwritten
    assert len(bp.Front.load(explored / "front.npz").solutions) == 4
    (explored / "front.npz").write_bytes(before)


def test_a_users_problem_is_served_and_a_killed_server_leaves_its_folder_valid(explored, capsys, tmp_path):
    folder = shutil.copytree(explored, tmp_path / "cities")
    command = [sys.executable, "-m", "bipareto", "serve", str(folder), "--steps", "5000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().split()[1]
        base = url.partition("/?")[0]
        with httpx.Client(base_url=base, headers={"Origin": base}, trust_env=False, timeout=60) as client:
            assert client.get(url, follow_redirects=True).status_code == 200
            with listening(client) as until:
                client.post("/api/solve", json={"preference": [3, 1, 1]})
                assert until("ended")["outcome"] == "solved"
                client.post("/api/solve", json={"preference": [1, 3, 1]})
                assert until("progress")
                process.send_signal(signal.SIGKILL)
    grown = bp.Front.load(folder / "front.npz")
    assert grown.values.shape == (4, 1, 3)
    np.testing.assert_allclose(grown.preferences[3], [0.6, 0.2, 0.2])
    assert {entry.name for entry in folder.iterdir()} == {entry.name for entry in explored.iterdir()}
    page = pathlib.Path(document(capsys, "report", folder)["report"]).read_text()
    assert all(name in page for name in ("Oslo", "Lima", "Pune", "bipareto explore --problem"))


@pytest.mark.parametrize("harm", ["{", '{"kind": "none"}', '{"kind": "solve", "settings": {"steps": -1}}', "[]"])
def test_folders_whose_settings_are_harmed_are_refused(harm, explored, capsys, tmp_path):
    (tmp_path / "front.npz").write_bytes((explored / "front.npz").read_bytes())
    (tmp_path / "command.json").write_text(harm)
    shown = said(capsys, "certify", tmp_path, code=2)
    assert "command.json" in shown.err
    assert shown.err.count("\n") == 1


def test_a_setup_may_bring_its_own_algorithm(capsys, tmp_path):
    (tmp_path / "own.py").write_text(
        "import bipareto as bp\nprint('loading')\n"
        "from bipareto.experiments.small import quadratic\n"
        "setup = bp.Setup(*quadratic(), algorithm=bp.mgda(0.3, 0.2, 10), defaults={'steps': 2})\n"
        "prefers = bp.Setup(*quadratic(), algorithm=bp.wc_mhgd([3.0, 1.0], 0.5, 0.2, 10), defaults={'steps': 2})\n"
        "wrong = bp.Setup(*quadratic(), defaults={'stepsize': 2})\n"
        "negative = bp.Setup(*quadratic(), defaults={'steps': -2})\n"
        "def broken(): return 1 / 0\n"
        "def leaves(): raise SystemExit(0)\n"
    )
    own = f"{tmp_path / 'own.py'}"
    found = document(capsys, "solve", "--problem", f"{own}:setup")
    assert found["steps"] == [[2]]
    assert "algorithm" not in found["settings"]
    assert document(capsys, "solve", "--problem", f"{own}:prefers")["preferences"] == [[0.75, 0.25]]
    assert "SystemExit" in said(capsys, "solve", "--problem", f"{own}:leaves", code=2).err
    assert "name one with --algorithm" in said(capsys, "solve", "--problem", f"{own}:setup", "--u", "1", code=2).err
    assert "did you mean 'step_size'?" in said(capsys, "solve", "--problem", f"{own}:wrong", code=2).err
    assert "`defaults['steps']` must be an integer" in said(capsys, "solve", "--problem", f"{own}:negative", code=2).err
    assert (
        "ZeroDivisionError: division by zero (own.py:8)" in said(capsys, "solve", "--problem", f"{own}:broken", code=2).err
    )


def test_ctrl_c_saves_and_tells_how_to_go_on(tmp_path):
    program = [sys.executable, "-m", "bipareto"]
    words = ["solve", "--problem", "quadratic", "--steps", "20000", "--out", str(tmp_path / "a run")]
    environment = os.environ | {machine.SWITCH: str(tmp_path / "compiled")}
    run = subprocess.Popen([*program, *words], stderr=subprocess.PIPE, text=True, env=environment)
    assert run.stderr is not None
    assert "step 1/20000" in run.stderr.readline()
    run.send_signal(signal.SIGINT)
    last = run.communicate()[1].splitlines()[-1]
    assert run.returncode == 130
    told = re.fullmatch(r"interrupted; go on with: bipareto (.*)", last)
    assert told is not None
    saved = len((tmp_path / "a run" / "records.jsonl").read_text().splitlines())
    assert 0 < saved < 20000
    again = [*program, *shlex.split(told[1]), "--json", "--quiet"]
    done = subprocess.run(again, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["steps"] == [[20000]]
    assert (tmp_path / "compiled").is_dir()


def test_an_interrupted_folder_says_how_to_go_on(capsys, tmp_path):
    store.write(tmp_path, "solve", "bipareto solve --problem quadratic", {})
    assert "go on with: bipareto solve --problem quadratic --resume" in said(capsys, "report", tmp_path, code=2).err


def test_a_fault_of_ours_is_two_lines_and_no_traceback(capsys, monkeypatch):
    monkeypatch.setattr("bipareto.cli.looking.run_list", lambda *_: {}["key"])
    shown = said(capsys, "list", code=1)
    assert shown.err.startswith("bipareto failed unexpectedly: KeyError")
    assert "Traceback" not in shown.err
    monkeypatch.setenv("BIPARETO_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main(["list"])


FAULTS = """
import resource, sys
import numpy as np
from bipareto.cli import machine

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        np.ones(2**22).sum()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
machine.keep_memory()
faults()
print(given_back, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_once_freed_is_used_again_without_new_pages():
    found = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True).stdout.split()
    given_back, kept = map(int, found)
    assert kept < given_back / 10


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    machine.keep_memory()


def test_the_compile_cache_never_stops_a_run(monkeypatch, tmp_path):
    assert machine.cache_folder() is None
    monkeypatch.setenv(machine.SWITCH, str(tmp_path / "here"))
    assert machine.cache_folder().parent == tmp_path / "here"
    (tmp_path / "file").touch()
    for place in ("/proc/none", str(tmp_path / "file")):
        monkeypatch.setenv(machine.SWITCH, place)
        assert machine.cache_folder() is None


def test_compare_runs_every_algorithm_with_the_same_budget(capsys, tmp_path):
    words = ["compare", "--problem", "quadratic", "--algorithms", "wc_mhgd", "linear", "--budget", "5000", "--preferences"]
    words += ["0.2,0.8", "0.7,0.3", "--step-sizes", "0.5", "--lower-steps", "5", "--out", tmp_path / "both"]
    found = document(capsys, *words)
    assert list(found["methods"]) == ["wc_mhgd", "linear"]
    assert found["methods"]["linear"]["step_size"] == 0.5
    comparison = bp.Comparison.load(tmp_path / "both" / "comparison.json")
    np.testing.assert_allclose(found["methods"]["wc_mhgd"]["best"], comparison.best("wc_mhgd"), rtol=1e-6)
    ends = {name: np.array([run.track.values[-1] for run in comparison.of(name)]) for name in comparison.methods}
    np.testing.assert_allclose(ends["wc_mhgd"], [quadratic_optimum(r) for r in ((0.2, 0.8), (0.7, 0.3))], rtol=1e-3)
    shares = np.array([[0.2, 0.8], [0.7, 0.3]])  # of a weighted sum: x = w_1 t_1 + w_2 t_2
    np.testing.assert_allclose(ends["linear"], 3 * (1 - shares) ** 2, rtol=1e-3)
    assert {file.name for file in (tmp_path / "both").glob("*.png")} == {"calls.png", "seconds.png"}  # a radar needs three
    assert "be a new folder" in said(capsys, *words, code=2).err
    assert "found a comparison" in said(capsys, "report", tmp_path / "both", code=2).err


def test_reproduce_makes_the_figure(capsys, tmp_path):
    assert document(capsys, "reproduce", "geometry", "--out", tmp_path)["figures"] == [
        str(tmp_path / "tuned" / "geometry.png")
    ]


def test_the_live_table_shows_losses_weights_gap_speed_and_time_left():
    from rich.console import Console

    rows = [Row(np.array([0.8, 0.2]), np.array([1.25, 2.5]), np.array([0.3, 0.7]), 1e-3, 7)] * 14
    for update in (Update(7, 20, "step", rows[:1], None, 3.5, 60.0), Update(98, 280, "steps", rows, (2, 14), 3.5, 60.0)):
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(rendered(update, ("loss [s]", "<b>")))
        shown = console.export_text()
        for text in ("loss [s]", "<b>", "1.25", "2.5", "7", "1.00e-03", "3.5 steps/s", "60 s left"):
            assert text in shown
    assert ".80 .20" in shown
    assert "and 2 more" in shown
    assert "runs 2/14" in shown
