"""The report: what its data holds, that it is one safe file, and what a person meets who opens it."""

import dataclasses
import json
import re

import numpy as np
import pytest
from playwright.sync_api import expect

import bipareto as bp
import fronts
from bipareto.report import Run, write_report
from bipareto.report.data import page_data, to_json
from bipareto.report.document import SCRIPTS, asset, report

NAMES = ("loss <script>alert(1)</script>", "<b>heat</b> &amp; [J]", "delay [ms]")
CERTIFICATE = {"gap": 1e-3, "gap_low": 9e-4, "gap_high": 1.1e-3, "error": float("nan"), "certain": False, "lemma": 1.0}


@pytest.fixture(scope="module")
def explored():
    """Three preferences and two seeds; one run failed, where its values would have been the best."""
    rows = bp.preferences.focused(3, 0.7)
    found = fronts.noisy(rows, seeds=2, steps=700, failing=[(1, 1)], names=NAMES, reference=-0.5)
    found.solutions[1][1] = dataclasses.replace(found.solutions[1][1], values=np.full(3, 0.01))
    return found


@pytest.fixture(scope="module")
def file(explored, tmp_path_factory):
    facts = {
        "settings": {"algorithm": {"step_size": 0.1, "u": "prox"}, "sizes": [1, 2]},
        "versions": {"jax": "0.10.2"},
        "command": "bipareto explore --out '<b>here</b>'",
        "certificates": [CERTIFICATE] * 6,
    }
    return write_report([Run("</script><b>mine</b>", explored, facts)], tmp_path_factory.mktemp("report") / "report.html")


def test_data_is_what_the_front_holds(explored):
    data = json.loads(to_json(page_data([Run("one", explored)])))
    assert data["names"] == list(NAMES)
    assert data["reference"] == [-0.5] * 3
    runs = data["runs"]
    assert np.array_equal([run["values"] for run in runs], explored.values.reshape(-1, 3))  # to the last bit
    assert [run["failed"] for run in runs] == explored.failed.ravel().tolist()
    assert [run["nondominated"] for run in runs] == explored.nondominated().ravel().tolist()
    assert runs[3]["message"] == explored.solutions[1][1].message
    assert runs[4]["title"] == "r = 0.15 0.15 0.7, seed 0"
    assert runs[0]["oracles"] == {"grad_upper": 1, "grad_lower": 2, "jvp": 3, "hvp": 4}
    assert len({run["group"] for run in runs}) == len(data["groups"]) == 3


def test_long_histories_are_thinned_and_short_ones_are_not(explored):
    runs = page_data([Run("one", explored)])["runs"]
    history = explored.solutions[0][0].history
    kept = runs[0]["history"]["steps"]
    assert (len(kept), kept[0], kept[-1]) == (300, 0, 699)
    np.testing.assert_allclose(runs[0]["history"]["values"], np.asarray(history.values)[kept], rtol=1e-5)
    np.testing.assert_allclose(runs[0]["history"]["gap"], np.asarray(history.gap)[kept], rtol=1e-5)
    short = page_data([Run("short", fronts.noisy(bp.preferences.focused(3), seeds=1, steps=4))])["runs"]
    assert short[0]["history"]["steps"] == [0, 1, 2, 3]
    many = page_data([Run("many", fronts.noisy(np.full((150, 3), 1 / 3), seeds=1, steps=210))])["runs"]
    assert {len(run["history"]["steps"]) for run in many} == {200}


def test_what_is_no_finite_number_becomes_null():
    grid = [[fronts.run([np.nan, 1.0], gap=[np.inf], curve=[[np.nan, 1.0]], status=bp.Status.NON_FINITE_VALUE)]]
    text = to_json(page_data([Run("lost", bp.Front(None, grid), {"settings": {"t": float("inf"), "f": len}})]))
    data = json.loads(text, parse_constant=pytest.fail)
    assert data["runs"][0]["values"] == [None, 1.0]
    assert data["runs"][0]["history"]["gap"] == [None]
    assert data["fronts"][0]["facts"]["settings"]["t"] is None


def test_fronts_are_compared_below_one_corner_and_dominate_each_other():
    worse = fronts.front([[0.5, 0.5]], [[[2.0, 2.0]]])
    better = fronts.front([[0.5, 0.5]], [[[1.0, 1.0]]])
    data = page_data([Run("worse", worse), Run("better", better)])
    assert [front["hypervolume"] for front in data["fronts"]] == [0.0, 1.0]
    assert [run["nondominated"] for run in data["runs"]] == [False, True]
    assert [run["title"] for run in data["runs"]] == ["worse: r = 0.5 0.5", "better: r = 0.5 0.5"]
    crowd = page_data([Run(name, fronts.noisy(bp.preferences.evenly(3, 6), 1, 4)) for name in ("a", "b")])
    assert [group["label"] for group in crowd["groups"]] == ["a", "b"]


def test_the_file_is_whole_and_closed(file):
    text = file.read_text()
    assert text.count("</script>") == 3  # data, plotly, page: nothing in the data ends them
    assert len(re.findall(r"<script", text.split("Plotly, Inc.")[0])) == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r'(?:src|href)="(?!#|data:,)', text.split("<script")[0])
    assert all(len(asset(name).splitlines()) <= 300 for name in (*SCRIPTS, "page.css", "page.html"))


def test_wrong_reports_are_refused_before_anything_is_written(explored, tmp_path):
    with pytest.raises(TypeError, match=r"`runs` must be a list of report.Run"):
        report([])
    with pytest.raises(ValueError, match=r"`runs` must have the objectives of 'a'; found others in 'b'"):
        write_report([Run("a", explored), Run("b", fronts.noisy(bp.preferences.focused(3)))], tmp_path / "no.html")
    with pytest.raises(ValueError, match="`certificates` must be one for each of the 6 runs; found 1"):
        Run("a", explored, {"certificates": [CERTIFICATE]})
    with pytest.raises(ValueError, match="`name` must be a text"):
        Run(" ", explored)
    with pytest.raises(ValueError, match="`path` must lie in an existing folder"):
        write_report([Run("a", explored)], tmp_path / "absent" / "report.html")
    assert not list(tmp_path.iterdir())


def test_the_report_in_a_browser(file, explored, tab):
    watched = tab()
    page = watched.page
    page.goto(file.as_uri())
    expect(page.locator("h1")).to_have_text("</script><b>mine</b>")
    expect(page.locator("#summary")).to_contain_text("6 runs · 3 objectives")
    for place in ("#sliders", "#chosen", "#parallel", "#table", "#objectives"):
        expect(page.locator(place)).to_contain_text(NAMES[1])
    for chart in ("#radar", "#scatter"):  # drawn by plotly, which reads some markup
        expect(page.locator(chart)).to_contain_text("<script>alert(1")
        expect(page.locator(chart)).to_contain_text("<b>heat</b>")
    expect(page.locator("#table tr.failed")).to_contain_text("FAILED: `upper` returned NaN or Inf")
    expect(page.locator("#certificate-table tbody tr")).to_have_count(6)
    expect(page.locator("#facts")).to_contain_text("bipareto explore --out '<b>here</b>'")
    expect(page.locator("#facts")).to_contain_text("algorithm.step_size")
    expect(page.locator("#live")).to_be_hidden()
    assert watched.asked == {file.as_uri()}
    for preference in bp.preferences.dirichlet(np.ones(3), 100, 1.0):
        found = page.evaluate("r => nearest(page.data.runs, r, page.data.reference)", preference.tolist())
        p, seed = divmod(found, 2)
        assert explored.select(preference) is explored.solutions[p][seed]
    levels = [0.5, 1.25, 3.0]
    found = page.evaluate("levels => fromAspiration(levels, page.data.reference, page.data.names)", levels)
    np.testing.assert_allclose(found, bp.preferences.from_aspiration(levels, explored.reference), rtol=1e-14)


def test_the_report_by_keyboard(file, explored, tab):
    page = tab().page
    page.goto(file.as_uri())
    page.locator("#weight-0").focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key in ("End", "Tab", "Home", "Tab", "Home"):
        page.keyboard.press(key)
    r = np.array([1.0, 0.01, 0.01]) / 1.02
    expect(page.locator("#share-0")).to_have_text(f"{r[0]:.3f}")
    chosen = explored.select(r)
    expect(page.locator("#chosen td").nth(1)).to_have_text(f"{chosen.values[0]:.4g}")
    expect(page.locator("tr.chosen button")).to_contain_text("r = 0.7 0.15 0.15")
    page.get_by_role("button", name="r = 0.15 0.15 0.7, seed 1").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#chosen strong")).to_have_text("r = 0.15 0.15 0.7, seed 1")
    page.get_by_role("button", name="Step back").press("Enter")
    expect(page.locator("#chosen strong")).to_contain_text("r = 0.7 0.15 0.15")
    axis = page.get_by_role("slider", name="Upper bound of delay [ms]")
    axis.press("ArrowDown")
    for _ in range(9):  # the axis is drawn anew with every step and keeps the focus
        page.keyboard.press("ArrowDown")
    bound = np.mean([explored.points[:, 2].min(), explored.points[:, 2].max()])
    kept = int((explored.points[:, 2] <= bound).sum())
    expect(page.locator("#brushed")).to_have_text(f"{kept} of 6 runs cross all marks")
    expect(page.locator("#table tr.outside")).to_have_count(5 - kept)
    page.keyboard.press("Escape")
    expect(page.locator("#brushed")).to_have_text("")


def test_brushing_and_picking_with_the_pointer(file, explored, tab):
    page = tab().page
    page.goto(file.as_uri())
    grip = page.locator("#parallel .grip").first
    grip.scroll_into_view_if_needed()
    box = grip.bounding_box()
    x, bottom = box["x"] + box["width"] / 2, box["y"] + box["height"]
    page.mouse.move(x, bottom - 1)
    page.mouse.down()
    page.mouse.move(x, bottom - box["height"] / 2)
    page.mouse.up()
    lowest = explored.points[:, 0]
    kept = int((lowest <= np.mean([lowest.min(), lowest.max()])).sum())
    expect(page.locator("#brushed")).to_have_text(f"{kept} of 6 runs cross all marks")
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#table tr.outside")).to_have_count(0)
    point = page.locator("#scatter path.point").first
    point.hover(force=True)  # plotly listens above its points
    expect(page.locator("#scatter .hoverlayer")).to_contain_text(NAMES[1])
    point.click(force=True)
    expect(page.locator("#chosen strong")).to_have_text("r = 0.7 0.15 0.15, seed 0")
    page.locator("#run").select_option(label="r = 0.15 0.7 0.15, seed 1 (failed)")
    expect(page.locator("#thinned")).to_have_text("300 of 350 steps drawn")


@pytest.mark.parametrize("width", [320, 390])
def test_the_report_fits_a_phone(file, tab, width):
    page = tab(width).page
    page.goto(file.as_uri())
    expect(page.locator("#margin .main-svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    beyond = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    assert page.evaluate(beyond) == 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    wide = page.evaluate("document.querySelector('#scatter .main-svg').getBoundingClientRect().width")
    assert 500 < wide <= 690  # drawn anew for paper of 180 mm


def test_several_fronts_and_few_objectives_in_a_browser(tmp_path, tab):
    lost = [[fronts.run([np.nan, 1.0], status=bp.Status.NON_FINITE_VALUE)]]
    several = [Run("<i>a</i>", fronts.noisy(bp.preferences.evenly(2, 5), 1, 9)), Run("lost", bp.Front(None, lost))]
    page = tab().page
    page.goto(write_report(several, tmp_path / "several.html").as_uri())
    expect(page.locator("#fronts tbody tr")).to_have_count(2)
    expect(page.locator("#radar-figure")).to_be_hidden()
    expect(page.locator("#legend")).to_contain_text("<i>a</i>: 0.")
    page.goto(write_report(several[1:], tmp_path / "lost.html").as_uri())
    expect(page.locator("#chosen")).to_contain_text("No run ended well")
    expect(page.locator("#scatter-figure")).to_be_hidden()


def test_sliders_reach_objectives_of_very_different_sizes(tmp_path, tab):
    uneven = fronts.front(bp.preferences.focused(2, 0.7), [[[0.1, 1e4]], [[0.02, 2e4]]])
    page = tab().page
    page.goto(write_report([Run("uneven", uneven)], tmp_path / "uneven.html").as_uri())
    expect(page.locator("#chosen td").nth(1)).to_have_text("0.1000")
    page.locator("#weight-0").press("End")
    page.locator("#weight-1").press("Home")
    r = np.array(page.evaluate("page.view.preference"))
    assert r[1] / r[0] == pytest.approx(1e-7)
    assert uneven.select(r) is uneven.solutions[1][0]
    expect(page.locator("#chosen td").nth(1)).to_have_text("0.02000")
    page.locator("#levels summary").click()
    page.locator("#level-0").fill("0.05")
    page.locator("#level-1").fill("15000")
    page.get_by_role("button", name="Use these levels").click()
    wanted = bp.preferences.from_aspiration([0.05, 15000.0])
    np.testing.assert_allclose(page.evaluate("page.view.preference"), wanted, rtol=1e-12)
    page.locator("#weight-0").press("End")  # where it is: the other keeps what no slider could hold exactly
    np.testing.assert_allclose(page.evaluate("page.view.preference"), wanted, rtol=1e-12)
