"""Pictures: what is drawn are the numbers of the front, and nothing lies on anything else."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer

import bipareto as bp
import fronts
from bipareto import preferences
from bipareto.front import looks
from bipareto.front.pictures import KINDS

R3 = np.vstack([preferences.focused(3, 0.8), [[0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3]]])
NAMES = ("validation loss [nats]", "energy per inference [mJ]", "latency [ms]")
THREE = fronts.noisy(R3, names=NAMES)
BROKEN = fronts.noisy(R3, failing={(0, 1), *[(2, seed) for seed in range(5)]})
FIFTY = fronts.noisy(preferences.evenly(10, 50), seeds=3, steps=20, failing={(3, 0)})
FRONTS = {
    "three objectives": THREE,
    "failed runs": BROKEN,
    "two objectives": fronts.noisy(preferences.evenly(2, 12), seeds=3),
    "fifty preferences": FIFTY,
    "one preference, one seed": fronts.noisy(preferences.focused(6, 0.5)[:1], seeds=1),
    "no preference": fronts.noisy(None, objectives=4),
    "long names": fronts.noisy(
        preferences.focused(10, 0.5)[:7], names=tuple(f"validation loss of task number {i} [nats]" for i in range(10))
    ),
}


def lines(axes, points):
    return [line for line in axes.lines if len(line.get_xdata()) == points]


def texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def bands(axes):
    """(lower, upper) edge of every band, in the order drawn."""
    found = []
    for band in axes.collections:
        vertices = band.get_paths()[0].vertices
        steps = int(vertices[:, 0].max()) + 1
        found.append([[edge(vertices[vertices[:, 0] == k, 1]) for k in range(steps)] for edge in (np.min, np.max)])
    return np.array(found)


def options_for(front, kind):
    return {"objectives": [0, 3, 9]} if kind == "scatter" and front.values.shape[-1] > 6 else {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name, front in FRONTS.items() for kind in KINDS if kind != "radar" or front.values.shape[-1] > 2],
)
def test_nothing_is_clipped_and_the_legend_lies_beside_the_data(name, kind, tmp_path):
    front = FRONTS[name]
    figure = front.plot(kind, **options_for(front, kind))
    figure.savefig(tmp_path / "front.png")
    whole = figure.bbox.padded(1.5)
    legend = figure.legends[0].get_window_extent()
    boxes = [axes.get_tightbbox() for axes in figure.axes if axes.get_visible()]
    for box in [*boxes, legend, figure._suptitle.get_window_extent()]:
        assert whole.x0 <= box.x0
        assert whole.y0 <= box.y0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
    assert not legend.count_overlaps(boxes)
    assert not legend.overlaps(figure._suptitle.get_window_extent())
    assert len(texts(figure)) <= 12


@pytest.mark.parametrize("kind", ["radar", "parallel"])
def test_names_along_the_axis_do_not_overlap(kind, tmp_path):
    for name in ("three objectives", "fifty preferences", "long names"):
        figure = FRONTS[name].plot(kind)
        figure.savefig(tmp_path / "front.png")
        if figure.axes[0].get_xticklabels()[0].get_rotation() == 0:  # boxes of turned texts say nothing
            boxes = [text.get_window_extent().padded(3) for text in figure.axes[0].get_xticklabels()]
            assert all(box.count_overlaps(boxes) == 1 for box in boxes)


def test_parallel_lines_are_means_with_standard_errors():
    figure = THREE.plot()
    axes = figure.axes[0]
    bars = [found for found in axes.containers if isinstance(found, ErrorbarContainer)]
    assert len(bars) == 5
    for p, bar in enumerate(bars):
        np.testing.assert_allclose(bar[0].get_ydata(), THREE.mean()[p])
        ends = np.array([segment[:, 1] for segment in bar[2][0].get_segments()])
        np.testing.assert_allclose(np.ptp(ends, axis=1) / 2, THREE.standard_error()[p])
    rings = [sorted(line.get_xdata()) for line in axes.lines if line.get_markersize() == 13]
    assert rings == [[0], [1], [2], [0, 1], []]  # both of a tie, none where all are equal
    assert [text.get_text().split()[0] for text in axes.get_xticklabels()] == ["validation", "energy", "latency"]
    assert "mean ± standard error" in figure._suptitle.get_text()
    assert "standard error" not in FRONTS["one preference, one seed"].plot()._suptitle.get_text()


def test_picking_objectives_by_name_or_number():
    by_name, by_number = (THREE.plot(objectives=pick) for pick in ([NAMES[2], NAMES[0]], np.array([2, 0])))
    for figure in (by_name, by_number):
        np.testing.assert_allclose(figure.axes[0].containers[1][0].get_ydata(), THREE.mean()[1, [2, 0]])
        assert figure.axes[0].get_xticklabels()[0].get_text() == "latency [ms]"


@pytest.mark.parametrize(("transform", "shown", "best"), [(None, np.asarray, np.min), ("inverse", np.reciprocal, np.max)])
def test_radar_polygons_are_means_and_the_envelope_is_the_best_of_all_runs(transform, shown, best):
    axes = BROKEN.plot("radar", transform=transform).axes[0]
    found = lines(axes, 4)
    good = [p for p in range(5) if p != 2]  # all runs of preference 2 failed
    assert len(found) == 4
    for line, p in zip(found, good, strict=True):
        mean = shown(BROKEN.values[p][~BROKEN.failed[p]]).mean(axis=0)
        np.testing.assert_allclose(line.get_ydata(), [*mean, mean[0]])
        np.testing.assert_allclose(line.get_xdata(), [0, 2 * np.pi / 3, 4 * np.pi / 3, 0])
    envelope = axes.patches[0].get_xy()[:3, 1]
    np.testing.assert_allclose(envelope, best(shown(BROKEN.points), axis=0))
    low, high = axes.get_ylim()
    assert low == 0
    assert high > max(line.get_ydata().max() for line in found)


def test_a_radar_of_negative_values_keeps_them_outside_its_centre():
    front = fronts.front(preferences.focused(3), np.array([[[-2.0, 1.0, 1.0]], [[1.0, -1.0, 1.0]], [[1.0, 1.0, 0.0]]]))
    assert front.plot("radar").axes[0].get_ylim()[0] < -2


@pytest.mark.parametrize("name", ["two objectives", "failed runs"])
def test_scatter_shows_every_pair_and_fills_what_is_nondominated(name):
    front = FRONTS[name]
    objectives = front.values.shape[-1]
    figure = front.plot("scatter")
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == objectives * (objectives - 1) // 2
    pairs = [(column, row) for row in range(1, objectives) for column in range(row)]
    for axes, pair in zip(panels, pairs, strict=True):
        for fill, which in ((False, ~front.nondominated() & ~front.failed), (True, front.nondominated())):
            drawn = [line.get_xydata() for line in axes.lines if (line.get_markerfacecolor() != "none") == fill]
            expected = front.values[which][:, pair]
            assert len(expected) > 0
            np.testing.assert_array_equal(np.sort(np.concatenate(drawn), axis=0), np.sort(expected, axis=0))
    bottom = [axes.get_xlabel() for axes in panels if axes.get_xlabel()]
    assert bottom == [f"$\\phi_{{{s + 1}}}$" for s in range(objectives - 1)]


@pytest.mark.parametrize("quantity", ["values", "gap"])
def test_convergence_shows_mean_and_band_over_seeds(quantity):
    def curves(p, s):
        histories = [run.history for run in THREE.solutions[p]]
        return np.array([h.gap if quantity == "gap" else h.values[:, s] for h in histories])

    panels = range(1 if quantity == "gap" else 3)
    pictures = {band: THREE.plot("convergence", quantity=quantity, band=band).axes for band in ("error", "range", None)}
    for s in panels:
        expected = np.array([curves(p, s) for p in range(5)])  # [P, seeds, K]
        for axes in (pictures[band][s] for band in pictures):
            np.testing.assert_allclose([line.get_ydata() for line in lines(axes, 60)], expected.mean(axis=1))
            assert axes.get_yscale() == ("log" if quantity == "gap" else "linear")
        error = expected.std(axis=1, ddof=1) / np.sqrt(5)
        low, high = bands(pictures["error"][s]).swapaxes(0, 1)
        np.testing.assert_allclose(high - low, 2 * error)
        low, high = bands(pictures["range"][s]).swapaxes(0, 1)
        np.testing.assert_allclose([low, high], [expected.min(axis=1), expected.max(axis=1)])
        assert not pictures[None][s].collections


def test_failed_runs_are_dotted_until_they_end_and_count_in_no_mean():
    axes = BROKEN.plot("convergence").axes[0]
    dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert [len(line.get_xdata()) for line in dotted] == [30] * 6
    np.testing.assert_array_equal(dotted[0].get_ydata(), BROKEN.solutions[0][1].history.values[:, 0])
    crosses = [line.get_xydata()[0] for line in axes.lines if line.get_marker() == "x"]
    np.testing.assert_array_equal(crosses[0], [29, BROKEN.solutions[0][1].history.values[29, 0]])
    whole = [BROKEN.solutions[0][seed].history.values[:, 0] for seed in (0, 2, 3, 4)]
    np.testing.assert_allclose(lines(axes, 60)[0].get_ydata(), np.mean(whole, axis=0))
    assert "failed, until its end" in texts(axes.figure)
    assert "6 runs failed" in axes.figure._suptitle.get_text()
    assert "failed, until its end" not in texts(THREE.plot("convergence"))


def test_a_run_that_ran_away_flattens_no_other():
    curve = np.geomspace(1, 1e6, 20)[:, None] * np.ones(2)
    away = fronts.run([1e6, 1e6], curve, np.geomspace(1, 1e12, 20), bp.Status.UPPER_OVERSHOT)
    front = bp.Front(np.array([[0.5, 0.5]]), [[fronts.run([1.0, 1.0]), away]])
    for quantity, highest in (("values", 6), ("gap", 1e4)):  # 3 and 1 are the largest of the run that ended well
        low, high = front.plot("convergence", quantity=quantity).axes[0].get_ylim()
        assert high < highest
        assert low > 0


def test_a_run_that_stopped_early_rests_where_it_stopped():
    early = fronts.run([1.0, 1.0], [[4.0, 4.0], [2.0, 2.0]], [1.0, 0.5], bp.Status.STATIONARY)
    late = fronts.run([1.0, 1.0], 4.0 * np.ones((4, 2)), np.ones(4), bp.Status.STATIONARY)
    axes = bp.Front(np.array([[0.5, 0.5]]), [[early, late]]).plot("convergence", band=None).axes[1]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [4, 3, 3, 3])


def test_gaps_of_zero_are_shown():
    still = fronts.run([1.0, 1.0], np.ones((5, 2)), np.zeros(5))
    axes = bp.Front(np.array([[0.5, 0.5]]), [[still]]).plot("convergence", quantity="gap").axes[0]
    assert axes.get_yscale() == "linear"  # no logarithm of 0
    mixed = fronts.run([1.0, 1.0], np.ones((3, 2)), np.array([1.0, 1e-3, 0.0]))
    axes = bp.Front(np.array([[0.5, 0.5]]), [[mixed]]).plot("convergence", quantity="gap").axes[0]
    assert axes.get_yscale() == "log"
    assert 1e-4 < axes.get_ylim()[0] < 1e-3 < 1 < axes.get_ylim()[1] < 10


def test_a_few_preferences_have_their_own_line_and_many_share_that_of_their_first_objective():
    assert texts(THREE.plot())[:5] == ["0.8 0.1 0.1", "0.1 0.8 0.1", "0.1 0.1 0.8", "0.4 0.4 0.2", "0.33 0.33 0.33"]
    assert texts(FRONTS["no preference"].plot()) == ["no preference"]
    assert texts(BROKEN.plot())[1:4] == ["0.1 0.8 0.1", "0.1 0.1 0.8 (failed)", "0.4 0.4 0.2"]
    assert texts(fronts.noisy(preferences.focused(6, 0.5)[:2], seeds=1).plot())[1] == "$\\phi_{2}$ 0.5, others 0.1"
    lattice = preferences.lattice(3, 6)  # 28, of which four have their largest entry twice or three times
    found = looks.groups(fronts.noisy(lattice, seeds=1))
    assert [group.label for group in found] == [*[f"$\\phi_{{{s}}}$ (8)" for s in (1, 2, 3)], "several equally (4)"]
    assert sorted(p for group in found for p in group.rows) == list(range(28))
    for s, group in enumerate(found[:3]):
        assert all(np.argmax(lattice[p]) == s for p in group.rows)
    axes = FIFTY.plot().axes[0]
    assert len(axes.containers) == 50
    styles = [(to_hex(style["color"]), style["marker"]) for style in map(looks.style, range(30))]
    assert len(set(styles)) == 30


def test_pictures_touch_neither_the_backend_nor_pyplot():
    code = "import matplotlib; matplotlib.use('svg'); import fronts; fronts.front([[.5, .5]], [[[1., 2.]]]).plot();"
    code += "import sys; print(matplotlib.get_backend(), 'matplotlib.pyplot' in sys.modules)"
    here = pathlib.Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=here)
    assert done.stdout.split() == ["svg", "False"]


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("bipareto.front.pictures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match="`matplotlib` must be installed for pictures"):
        THREE.plot()


def test_bands_are_drawn_in_the_colour_of_their_line():
    axes = THREE.plot("convergence").axes[0]
    assert all(isinstance(band, PolyCollection) for band in axes.collections)
    colours = [to_hex(band.get_facecolor()[0][:3]) for band in axes.collections]
    assert colours == [colour.lower() for colour in looks.COLOURS[:5]]
