"""Wrong command lines and settings files: one line on standard error, exit code 2, nothing else."""

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bipareto.cli import main
from bipareto.cli.options import options
from bipareto.cli.settings import ALGORITHMS, COMMANDS

WORDS = ["wc_mgdh", "", "3", "None", "wc_mhgd wc_mhgd", "ünï"]
COUNTS = ["0", "-3", "1.5", "nan", "abc", "", "1e3", "99999999999999999999", "0x10", "--"]
SEEDS = [*COUNTS[1:], "-1"]
POSITIVE = ["nan", "inf", "-inf", "-1", "0", "abc", "", "1e400", "1,2", "--"]
FROM_ZERO = [text for text in POSITIVE if text != "0"]
SHARES = [*POSITIVE, "1", "1.5"]
VECTORS = ["nan", "1 inf", "-1 2", "1 x", "", "0.5 ''", "1e999", "0.1,0.2"]
# What each option must refuse; a new option belongs into this table.
BAD = {
    **dict.fromkeys(["preset", "algorithm", "hypergradient", "unit", "name", "what"], WORDS),
    **dict.fromkeys(["steps", "lower_steps", "hypergradient_steps", "hypergradient_batch", "lower_batch"], COUNTS),
    **dict.fromkeys(["upper_batch", "cross_batch", "evaluate_every", "seeds", "batch", "devices"], COUNTS),
    **dict.fromkeys(["seed", "refine"], SEEDS),
    "port": [*SEEDS, "65536"],
    **dict.fromkeys(["step_size", "lower_step_size", "hypergradient_step_size", "adjoint_step_size", "tau"], POSITIVE),
    **dict.fromkeys(["bound", "convexity", "averaging", "tracking", "weights_step", "budget", "tolerance"], POSITIVE),
    **dict.fromkeys(["time_limit"], POSITIVE),
    **dict.fromkeys(["rho", "save_every"], FROM_ZERO),
    "average": [*FROM_ZERO, "1"],
    "peak": SHARES,
    "u": ["nan", "inf", "-1", "0", "prx", "", "True"],
    "reference": ["nan", "inf 1", "x", "1 1e999"],
    "weights": VECTORS,
    "preference": [*VECTORS, "0 1"],
    "step_sizes": [*VECTORS, "0 1"],
    "preferences": ["nan", "0", "-3", "1.5", "focussed", "0.2,0", "0.2,nan", "0.2,0.8 3", "", "1,x", "1000000"],
    "algorithms": ["", "wc_mhgd wc_mhgd", "wc_mhdg mgda", "all"],
    "problem": ["", "digit", "quadratics", "no/such/file.py"],
    **dict.fromkeys(["config", "out", "folder", "folders", "to", "host"], ("''", "' '")),
    **dict.fromkeys(["json", "quiet", "resume", "distributed", "x64", "continuation", "allow_remote", "open_browser"], ()),
}
# Commands share options; each is tried in one command that has it.
FIELDS = [(command, name) for name, command in {name: c for c, cls in COMMANDS.items() for name in options(cls)}.items()]
TOML_BAD = [
    '"text"',
    "-1",
    "true",
    "[]",
    "{}",
    "nan",
    "inf",
    '["a"]',
    "1979-05-27",
    "[[1.0], 2]",
    '""',
    "[nan]",
    "{ a = 1 }",
]


def refused(capsys, words):
    """The one line that a command line is answered with."""
    try:
        code = main(words)
    except SystemExit as end:
        pytest.fail(f"{words} raised SystemExit({end.code})")
    shown = capsys.readouterr()
    assert code == 2, (words, shown)
    assert shown.out == "", words
    assert shown.err.count("\n") == 1, (words, shown.err)
    assert "Traceback" not in shown.err, (words, shown.err)
    return shown.err


def split(text):
    return [""] if text == "" else [word.strip("'") for word in text.split(" ")] if "' '" not in text else [" "]


def test_enough_lines_are_tried():
    assert sum(len(BAD[name]) for _, name in FIELDS) >= 200
    assert {name for _, name in FIELDS} == set(BAD)


@pytest.mark.parametrize(("command", "name"), FIELDS)
def test_wrong_values_are_refused(command, name, capsys):
    option = options(COMMANDS[command])[name]
    flag = [] if option.positional else ["--" + name.replace("_", "-")]
    for text in BAD[name]:
        line = refused(capsys, [command, *flag, *split(text)])
        assert line.startswith(("`", "Missing value")), line
    if flag and BAD[name]:
        for after in ([], ["--json"]):
            line = refused(capsys, [command, *flag, *after])
            assert line.startswith(f"`{flag[0]}` must be followed by a value; found nothing"), line


def test_wrong_settings_files_are_refused(capsys, tmp_path):
    file = tmp_path / "settings.toml"
    fits = {("x64", "true"), ("continuation", "true"), ("reference", "-1")}
    tried = 0
    for number, (command, name) in enumerate(FIELDS):
        option = options(COMMANDS[command])[name]
        if command not in ("solve", "explore", "compare"):
            continue
        bad = [value for value in TOML_BAD if (name, value) not in fits] if option.stored else ["1", '"text"', "true"]
        for value in (bad * 2)[number % len(bad) :][:6]:
            file.write_text(f"{name} = {value}\n")
            line = refused(capsys, [command, "--config", str(file)])
            assert name in line, line
            tried += 1
    assert tried >= 200


@pytest.mark.parametrize(
    "content", [b"steps = ", b"steps == 3", b"\xff\xfe", b"steps = 3\nsteps = 4", b"[steps]\nn = 1", b"a = " + b"[" * 3000]
)
def test_files_that_are_no_settings_are_refused(content, capsys, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    assert "settings.toml" in refused(capsys, ["solve", "--config", str(file)])


def test_settings_files_must_exist_and_use_each_name_once(capsys, tmp_path):
    assert "be a readable TOML file" in refused(capsys, ["solve", "--config", str(tmp_path / "none.toml")])
    assert "be a readable TOML file" in refused(capsys, ["solve", "--config", str(tmp_path)])
    file = tmp_path / "twice.toml"
    file.write_text("step-size = 0.1\nstep_size = 0.2\n")
    assert "once" in refused(capsys, ["solve", "--config", str(file)])
    file.write_text("stepsize = 0.1\n")
    assert "did you mean step_size?" in refused(capsys, ["solve", "--config", str(file)])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12), min_size=1, max_size=4))
def test_random_words_are_refused(words, capsys):
    if words[0] in (*COMMANDS, "-h", "--help", "help", "--version"):
        words = ["x", *words]
    refused(capsys, words)
    known = {"-h", "--help", "--json", "--quiet"}
    rest = [word for word in words if word.split("=")[0] not in known]
    if rest:
        refused(capsys, ["doctor", *rest, "--nonsense"])


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["exlpore"], "'explore'"),
        (["solv"], "'solve'"),
        (["solve", "--stpes", "3"], "--steps"),
        (["solve", "--lower-step-sise", "3"], "--lower-step-size"),
        (["explore", "--resme"], "--resume"),
        (["solve", "--algorithm", "wc_mgdh"], "'wc_mhgd'"),
        (["solve", "--hypergradient", "unroled"], "'unrolled'"),
        (["solve", "--problem", "digit"], "'digits'"),
        (["solve", "--preset", "quik"], "'quick'"),
        (["reproduce", "stochastic-dept"], "'stochastic-depth'"),
        (["explore", "--preferences", "focussed"], "'focused'"),
        (["solve", "--u", "certifed"], "'certified'"),
        (["list", "algorithm"], "'algorithms'"),
    ],
)
def test_typos_are_answered_with_the_right_name(words, right, capsys):
    assert f"did you mean {right}?" in refused(capsys, words)


def test_an_option_of_another_command_is_known(capsys):
    assert "--open-browser belongs to bipareto serve" in refused(capsys, ["doctor", "--open-browser"])


TAKES = {
    "wc_mhgd": {"u", "reference", "average", "lower_steps", "hypergradient", "lower_batch"},
    "mgda": {"lower_steps", "hypergradient", "lower_batch"},
    "linear": {"weights", "lower_steps", "hypergradient", "lower_batch"},
    "aid": {"weights", "lower_steps", "hypergradient", "lower_batch"},
    "itd": {"weights", "lower_steps", "hypergradient"},
    "stocbio": {"weights", "lower_steps", "hypergradient", "lower_batch"},
    "amigo": {"weights", "lower_steps", "hypergradient", "lower_batch"},
    "soba": {"weights", "adjoint_step_size", "lower_batch"},
    "stable": {"weights", "tau", "bound", "convexity", "lower_batch"},
    "moml": {"lower_steps", "hypergradient"},
    "gmoba": {"adjoint_step_size", "lower_batch"},
    "moco": {"lower_steps", "hypergradient", "lower_batch", "tracking", "weights_step", "rho"},
    "forum": {"lower_steps", "rho", "averaging"},
}
VALUES = {
    "u": "1", "reference": "0", "average": "0.5", "lower_steps": "3", "hypergradient": "cg", "lower_batch": "2",
    "weights": "1", "adjoint_step_size": "1", "tau": "0.5", "bound": "1", "convexity": "1", "rho": "1", "averaging": "1",
    "tracking": "1", "weights_step": "1",
}  # fmt: skip


@pytest.mark.parametrize("name", ALGORITHMS)
def test_options_that_an_algorithm_does_not_take_are_refused(name, capsys):
    for option in VALUES.keys() - TAKES[name]:
        flag = "--" + option.replace("_", "-")
        line = refused(capsys, ["solve", "--problem", "quadratic", "--algorithm", name, flag, VALUES[option]])
        assert line.startswith(f"`{flag}` must be left out for {name}"), line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("solve", "`--problem` must be one of"),
        ("solve --problem quadratic --preset quick", "must be left out for the problem quadratic"),
        ("solve --problem quadratic --resume", "`--out` must be given to resume"),
        ("solve --problem quadratic --preference 1 2 3", "3 entries for 2 objectives"),
        ("solve --problem quadratic --algorithm mgda --preference 1 2", "follows none"),
        ("solve --problem quadratic --algorithm linear --weights 1 2 3", "weights"),
        ("solve --problem quadratic --reference 1 2 3", "reference"),
        ("solve --problem quadratic --lower-batch 3", "lower_data"),
        ("solve --problem quadratic --hypergradient unrolled --hypergradient-steps 3", "the hypergradient unrolled"),
        ("solve --problem quadratic --algorithm aid --hypergradient neumann", "be cg for aid"),
        ("solve --problem quadratic --out /proc/none/run", "proc"),
        ("solve --problem nowhere/none.py:setup", "an existing file"),
        ("solve --problem no_such_module:setup", "an installed module"),
        ("solve --problem json:dumps", "load dumps() of json"),
        ("solve --problem json:dump", "load dump() of json"),
        ("solve --problem json:dumb", "did you mean 'dump'?"),
        ("solve --problem json:__name__", "a bp.Setup or a function"),
        ("solve --problem :x", "an installed module"),
        ("explore --problem quadratic --preferences 0.1,0.2,0.7", "have 2 numbers in every row"),
        ("explore --problem quadratic --algorithm mgda --preferences 3", "takes no preference"),
        ("explore --problem quadratic --preferences 3 --peak 0.9", "come with --preferences focused"),
        ("explore --problem digits --preferences 3 --peak 0.9", "come with --preferences focused"),
        ("explore --problem quadratic --preferences focused --peak 0.2", "lie in [1/2, 1)"),
        ("explore --problem quadratic --devices 1000", "be at most"),
        ("compare --problem quadratic --budget 3", "`--algorithms` must be given"),
        ("compare --problem quadratic --algorithms mgda", "`--budget` must be given"),
        ("compare --algorithms mgda --budget 3 --steps 3", "use --budget"),
        ("compare --problem quadratic --algorithms mgda moml --budget 3 --tau 0.5", "these algorithms"),
        ("reproduce", "see bipareto list figures"),
        ("certify", "be given"),
        ("certify nowhere", "hold a finished run"),
        ("serve nowhere", "hold a finished run"),
        ("report nowhere", "hold a finished run"),
        ("solve extra words", "be followed by options"),
    ],
)
def test_wrong_combinations_are_refused(words, told, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told in refused(capsys, words.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["solve", "--stpes", "3"], ["explore", "--problem", "quadratic", "--peak", "nan"]])
def test_wrong_calls_from_a_shell(words):
    done = subprocess.run([sys.executable, "-m", "bipareto", *words], capture_output=True, text=True, env=os.environ)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
