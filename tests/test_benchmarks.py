"""The benchmarks' table says what was measured, and the README says the same."""

import json

import pytest
from benchmarks.__main__ import failures, measured
from benchmarks.rows import WHY, rows
from benchmarks.summary import BEGIN, END, ROOT, cell, report, rewritten, table
from benchmarks.summary import measured as all_results

CPU = {"cpu": "some", "cores": 2, "device": "cpu", "jax": "0.10", "python": "3.11", "date": "2026-01-01"}
GPU = CPU | {"device": "NVIDIA H200"}


def entry(step, slope, wrong=False):
    """How one peer did in one race."""
    difference = 5.3 if wrong else 1e-6
    times = {"upper step": step, "hypergradient": slope}
    return {what: {"ratio": {"median": time}, "difference": difference, "wrong": wrong} for what, time in times.items()}


def race(absent=None, **peers):
    return {
        "upper step": {peer: found["upper step"] for peer, found in peers.items()},
        "hypergradient": {peer: found["hypergradient"] for peer, found in peers.items()},
        "absent": absent or {},
        "versions": dict.fromkeys(peers, "1.0"),
    }


def overhead(ratio):
    return {"ms_per_step": {"solve": 18.4}, "ratio": {"solve": ratio, "compiled chunk": 0.99}}


def row_of(results, what, machine=CPU):
    return next(
        row for row in rows({name: part | {"machine": machine} for name, part in results.items()}) if what in row.what
    )


def test_the_readme_holds_what_the_results_give():
    readme = (ROOT / "README.md").read_text()
    assert rewritten(readme, report(all_results())) == readme  # otherwise run: python -m benchmarks.summary


def test_an_aim_is_met_or_missed_by_so_much_and_for_a_reason():
    met = row_of({"overhead": overhead(1.104)}, "`solve`")
    assert (met.met, met.aim, met.missed) == (True, "≤ 1.1", "")
    assert met.measured == "1.10 (18 ms a step; its compiled part alone 0.99)"
    missed = row_of({"overhead": overhead(1.25)}, "`solve`", GPU)
    assert missed.met is False
    assert missed.measured.startswith("**1.25** (")
    assert missed.missed == f"14 % over: {WHY['solve'][1]}"
    assert cell(missed).startswith("✗ **1.25**")
    assert cell(met).startswith("✓ 1.10")


def test_aims_differ_between_devices():
    explored = {"exploration": {"digits": {"ratio": 11.2}, "quadratic": {"ratio": 3.6}}}
    assert row_of(explored, "25 preferences").met is True
    assert row_of(explored, "25 preferences", GPU).met is False
    columns = {name: rows({"overhead": overhead(1.0) | {"machine": machine}}) for name, machine in (("a", CPU), ("b", GPU))}
    lines = table(columns)
    assert lines[0] == "| what | aim | a | b |"
    assert any("| ≤ 25 / ≤ 6 |" in line for line in lines)
    assert all(line.count("|") == 5 for line in lines)


def test_peers_are_judged_by_their_own_aim_and_wrong_ones_not_at_all():
    first = race(JAXopt=entry(1.1, 0.94), PyTorch=entry(3.4, 3.2), Betty=entry(4.1, 3.9, wrong=True))
    peers = {"cleaning, S = 5, cores = 1": first | {"absent": {"BOAT": "No module named 'boat_torch'"}}}
    jaxopt, pytorch, betty, boat = (row_of({"peers": peers}, peer) for peer in ("JAXopt", "PyTorch", "Betty", "BOAT"))
    assert jaxopt.measured == "–, – · –, 1.10 (**0.94**) · –, –"
    assert (jaxopt.met, jaxopt.missed[:9]) == (False, "6 % short")
    assert (pytorch.met, pytorch.aim) == (True, "≥ 3")
    assert (betty.met, betty.measured) == (None, "–, – · –, wrong · –, –; wrong: off by 5.3 times its length")
    assert (boat.met, boat.measured) == (None, "absent: No module named 'boat_torch'")
    on_gpu = {"cleaning, S = 5": first, "few_shot, S = 1": {"failed": "RuntimeError: no memory"}}
    pytorch = row_of({"peers": on_gpu}, "PyTorch", GPU)
    assert (pytorch.met, pytorch.aim) == (False, "≥ 5")
    assert pytorch.measured.endswith("· failed, –")
    fast = {"toy, S = 1": race(PyTorch=entry(9.0, 8.0)), "few_shot, S = 1": {"failed": "RuntimeError: no memory"}}
    assert row_of({"peers": fast}, "PyTorch", GPU).met is None  # as far as is known


def test_failed_and_missing_parts_say_so():
    failed = row_of({"demo": {"failed": "RuntimeError: no table"}}, "`make demo`")
    assert (failed.measured, failed.met, failed.aim) == ("failed: RuntimeError: no table", None, "≤ 60 s")
    missing = row_of({"demo": {"failed": "x"}}, "`solve`")
    assert (missing.measured, missing.met) == ("not measured", None)
    assert cell(missing) == "–"


def test_a_readme_without_its_marks_is_refused():
    assert rewritten(f"a\n{BEGIN}\nold\n{END}\nb\n", "new") == f"a\n{BEGIN}\n\nnew\n\n{END}\nb\n"
    with pytest.raises(SystemExit, match="must hold the lines"):
        rewritten(f"{END} {BEGIN}", "new")


def test_parts_are_kept_one_by_one_whatever_happens_to_others(tmp_path, capsys):
    file = tmp_path / "cpu.json"
    file.write_text(json.dumps({"old": {"value": 1, "machine": CPU}, "quick": {"value": 2, "machine": CPU}}))

    def broken():
        raise ValueError("too large\nfor this machine")

    def stopped():
        raise KeyboardInterrupt

    later = CPU | {"date": "2026-02-01"}
    with pytest.raises(KeyboardInterrupt):
        measured({"broken": broken, "quick": lambda: {"value": 3}, "stopped": stopped}, file, later)
    assert json.loads(file.read_text()) == {
        "old": {"value": 1, "machine": CPU},
        "quick": {"value": 3, "machine": later},
        "broken": {"failed": "ValueError: too large", "machine": later},
    }
    assert "quick: part 2 of 3" in capsys.readouterr().out
    assert not measured({"broken": broken}, file, CPU)
    assert measured({"quick": lambda: {"value": 4}}, file, CPU)
    assert [path.name for path in tmp_path.iterdir()] == ["cpu.json"]


def test_a_race_that_failed_is_a_failure_of_its_part():
    assert failures({"toy": {"failed": "exit code 1"}, "machine": CPU}) == ["exit code 1"]
    assert failures({"toy": {"time": 1.0}, "machine": CPU}) == []
