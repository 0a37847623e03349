"""The live page: who may use it, that it solves, cancels and saves, and what a person does on it."""

import dataclasses
import io
import json
import socket
import threading

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

import bipareto as bp
import served
from bipareto.report import serve
from bipareto.report.server import LiveServer
from bipareto.report.session import Busy, Session

FOREVER = 10**8


@pytest.fixture(scope="module")
def front():
    return served.front()


@pytest.fixture(scope="module")
def live(front):
    saved = []
    server = LiveServer(front, saved.append, {"name": "quadratic <b>", "command": "bipareto serve"})
    server.saved = saved
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server
    server.stop()
    thread.join()


@pytest.fixture
def fresh(live, front):
    """The server, with the front as it was at the start."""
    live.session.close()
    live.session.run = dataclasses.replace(live.session.run, front=front)
    live.session.steps = None
    live.saved.clear()
    return live


@pytest.fixture(scope="module")
def client(live):
    """Someone who opened the address, asking as the page does."""
    address = httpx.URL(live.url)
    base = f"http://{address.netloc.decode()}"
    with httpx.Client(base_url=base, headers={"Origin": base}, trust_env=False, timeout=30) as one:
        entered = one.get(live.url)
        assert entered.status_code == 303
        assert entered.headers["location"] == "/"
        assert "HttpOnly" in entered.headers["set-cookie"]
        assert "SameSite=strict" in entered.headers["set-cookie"]
        yield one


def test_every_answer_is_sealed(client):
    for path, status in (("/", 200), ("/assets/page.js", 200), ("/api/front", 200), ("/absent", 404)):
        answer = client.get(path)
        assert answer.status_code == status
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


def test_only_the_holder_of_the_token_passes(live, client):
    base, cookie = client.base_url, f"bipareto_{client.base_url.port}"
    token = live.url.partition("token=")[2]
    for wrong in ("", "x", token[:-1], token + "x", "é"):
        for path in ("/", "/api/front", "/assets/plotly.js", "/api/events", "/api/x/0"):
            assert httpx.get(f"{base}{path}", params={"token": wrong}, trust_env=False).status_code == 401
            jar = {"Cookie": f"{cookie}={wrong}".encode()}
            assert httpx.get(f"{base}{path}", headers=jar, trust_env=False).status_code == 401
    assert httpx.get(f"{base}/api/front", params={"token": token}, trust_env=False).status_code == 401  # the page only


def test_another_name_or_page_is_refused(client):
    port = client.base_url.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "[", "127.0.0.1@evil.example"):
        assert client.get("/", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 400
    assert client.get("/", headers={"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}).status_code == 200
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", "http://127.0.0.1:1", ""):
        assert client.post("/api/cancel", json={}, headers={"Origin": origin}).status_code == 403
        assert client.get("/api/front", headers={"Origin": origin}).status_code == 403
    with httpx.Client(base_url=client.base_url, cookies=client.cookies, trust_env=False) as other:
        assert other.get("/api/front").status_code == 200
        assert other.post("/api/cancel", json={}).status_code == 403


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"x" * 20_000, 413),
        (iter([b'{"preference": [' + b"1," * 5_000, b"1," * 5_000]), 413),
        (b"", 400),
        (b"{", 400),
        (b"[" * 16_000, 400),
        (b"[1, 1, 1]", 400),
        (b"{}", 400),
        (b'{"preference": [1, 1]}', 400),
        (b'{"preference": [1, 1, 0]}', 400),
        (b'{"preference": [1, 1, -1]}', 400),
        (b'{"preference": [1, 1, NaN]}', 400),
        (b'{"preference": [1, 1, 1e999]}', 400),
        (b'{"preference": ["a", "b", "c"]}', 400),
        (b'{"preference": [[1], [1], [1]]}', 400),
        (b'{"preference": {"a": 1}}', 400),
        (b"\xff", 400),
    ],
)
def test_wrong_wishes_are_told(client, content, status):
    answer = client.post("/api/solve", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert len(answer.json()["problem"]) > 8


def test_other_ways_in_are_closed(client):
    assert client.post("/api/solve", data={"preference": "1"}).status_code == 415
    assert client.get("/api/solve").status_code == 405
    assert client.put("/api/front").status_code == 405
    for path in ("/assets/..%2fapp.py", "/assets/app.py", "/assets/", "/api/x/7", "/api/x/-1", "/api/x/a"):
        assert client.get(path).status_code == 404


def test_one_solve_at_a_time_and_a_cancelled_one_leaves_no_trace(fresh, client, front):
    fresh.session.steps = FOREVER
    with served.listening(client) as until:
        assert client.post("/api/solve", json={"preference": [1, 1, 1]}).status_code == 202
        assert until("progress")["steps"] == FOREVER
        second = client.post("/api/solve", json={"preference": [1, 1, 1]})
        assert second.status_code == 409
        assert "in flight" in second.json()["problem"]
        assert client.get("/").status_code == 200  # the server answers while JAX works
        assert client.post("/api/cancel", json={}).status_code == 202
        assert until("ended")["outcome"] == "stopped"
    assert fresh.session.front is front
    assert not fresh.saved


def test_the_variables_are_exported_without_pickle(client, front):
    answer = client.get("/api/x/1")
    assert 'filename="x-1.npz"' in answer.headers["content-disposition"]
    with np.load(io.BytesIO(answer.content), allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["x"], front.solutions[1][0].x)
        facts = json.loads(archive["facts.json"])
    assert facts["preference"] == front.preferences[1].tolist()


def ended(session):
    """What a session told at the end of its solve."""
    while (thread := session._thread) is not None:
        thread.join()
    return session._latest[1]


def test_a_new_point_joins_and_is_saved(front):
    saved = []
    session = Session(front, saved.append, {"certificates": [None] * 3}, 600.0, None)
    session.solve([2.0, 1.0, 1.0])
    assert ended(session)["outcome"] == "solved"
    grown = saved[0]
    assert grown is session.front
    np.testing.assert_allclose(grown.preferences[3], [0.5, 0.25, 0.25])
    expected = front.resolve([0.5, 0.25, 0.25])
    np.testing.assert_array_equal(grown.solutions[3][0].values, expected.values)
    assert len(json.loads(session.page())["runs"]) == 4
    assert (grown.names, grown.recipe) == (front.names, front.recipe)


def test_a_point_joins_a_front_of_several_seeds(front):
    twice = bp.Front(front.preferences, [2 * row for row in front.solutions], recipe=front.recipe)
    session = Session(twice, lambda _: None, {}, 600.0, 5)
    session.solve([1.0, 1.0, 1.0])
    assert ended(session)["index"] == 6
    assert session.front.values.shape == (7, 1, 3)
    np.testing.assert_array_equal(session.front.preferences[:4], front.preferences[[0, 0, 1, 1]])
    assert len(session.front.solutions[6][0].history.gap) == 5


def test_what_goes_wrong_is_told_and_the_session_goes_on(front):
    def full_disk(_):
        raise OSError("no space left")

    session = Session(front, full_disk, {}, 600.0, None)
    session.solve([1.0, 1.0, 1.0])
    told = ended(session)
    assert told["outcome"] == "solved"
    assert "could not be saved: no space left" in told["message"]
    session.time_limit = 1e-9
    session.solve([1.0, 1.0, 1.0])
    assert "time limit of 1e-09 s" in ended(session)["message"]
    session.time_limit, session.steps = 600.0, FOREVER
    session.solve([1.0, 1.0, 1.0])
    with pytest.raises(Busy, match="in flight"):
        session.solve([1.0, 1.0, 1.0])
    session.close()
    assert session._latest[1]["outcome"] == "stopped"
    broken = front.recipe._replace(key="no key", tolerance=-1.0)
    session = Session(bp.Front(front.preferences, front.solutions, recipe=broken), full_disk, {}, 600.0, None)
    session.solve([1.0, 1.0, 1.0])
    assert ended(session)["outcome"] == "failed"
    assert "`tolerance` must be a number > 0" in session._latest[1]["message"]


def test_fronts_that_cannot_solve_say_why(front):
    loaded = bp.Front(front.preferences, front.solutions)
    session = Session(loaded, lambda _: None, {}, 600.0, None)
    assert "does not know its problem" in json.loads(session.page())["cannot"]
    with pytest.raises(ValueError, match="does not know its problem"):
        session.solve([1.0, 1.0, 1.0])
    unguided = front.recipe._replace(algorithm=bp.mgda(0.1, 0.1, 5))
    session = Session(bp.Front(None, front.solutions[:1], recipe=unguided), lambda _: None, {}, 600.0, None)
    assert "follows no preference" in session.cannot


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"host": "0.0.0.0"}, "`host` must be an address of this machine alone"),
        ({"host": "example.org"}, "`host` must be an address of this machine alone"),
        ({"port": -1}, "`port` must be an integer >= 0"),
        ({"port": 70_000}, "`port` must be at most 65535"),
        ({"time_limit": 0.0}, "`time_limit` must be a number > 0"),
        ({"steps": 0}, "`steps` must be an integer >= 1"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_served(front, options, text):
    with pytest.raises(ValueError, match=text):
        serve(front, save=lambda _: None, facts={}, **options)


def test_a_taken_port_is_told(front, live):
    with pytest.raises(ValueError, match="`port` must be free on this host"):
        serve(front, save=lambda _: None, facts={}, port=httpx.URL(live.url).port)


def test_a_person_chooses_solves_and_exports(fresh, front, tab):
    watched = tab()
    page = watched.page
    page.goto(fresh.url)
    base = fresh.url.partition("?")[0]
    expect(page.locator("h1")).to_have_text("quadratic <b>")
    assert page.url == base  # the token is no part of the address any more
    expect(page.locator("#chosen")).to_contain_text(served.NAMES[0])
    page.locator("#weight-2").press("End")
    r = np.array([0.1, 0.1, 1.0]) / 1.2
    expect(page.locator("#chosen td").nth(1)).to_have_text(f"{front.select(r).values[0]:.4g}")
    page.locator("#solve").click()
    expect(page.locator("#progress")).to_contain_text("it is part of the front and saved")
    expect(page.locator("#table tbody tr")).to_have_count(4)
    expect(page.locator("#chosen strong")).to_have_text("r = 0.083 0.083 0.83")
    np.testing.assert_allclose(fresh.saved[0].preferences[3], r, rtol=1e-12)
    with page.expect_download() as download:
        page.locator("#export").click()
    with np.load(download.value.path(), allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["x"], fresh.saved[0].solutions[3][0].x)
    page.locator("#back").click()
    expect(page.locator("#table tr.chosen td").first).not_to_have_text("r = 0.083 0.083 0.83")
    page.locator("#forward").click()
    expect(page.locator("#chosen strong")).to_have_text("r = 0.083 0.083 0.83")
    assert all(address.startswith(base) for address in watched.asked)
    assert len(watched.asked) > 10


def test_a_person_names_levels_and_cancels(fresh, front, tab):
    page = tab(390).page
    page.goto(fresh.url)
    page.locator("#levels summary").click()
    for s, level in enumerate((-1.0, 5.0, 0.5)):
        page.locator(f"#level-{s}").fill(str(level))
    page.get_by_role("button", name="Use these levels").click()
    expect(page.locator("#levels-problem")).to_contain_text("must be above 0")
    page.locator("#level-0").fill("3")
    page.get_by_role("button", name="Use these levels").click()
    r = bp.preferences.from_aspiration([3.0, 5.0, 0.5])
    for s in range(3):
        expect(page.locator(f"#share-{s}")).to_have_text(f"{r[s]:.3f}")
    expect(page.locator("#chosen td").nth(2 * 5 + 1)).to_have_text(f"{front.select(r).values[2]:.4g}")
    fresh.session.steps = FOREVER
    page.locator("#solve").click()
    expect(page.locator("#progress")).to_contain_text("Step")
    expect(page.locator("#solve")).to_be_disabled()
    page.locator("#cancel").click()
    expect(page.locator("#progress")).to_contain_text("Cancelled; the front is as it was.")
    expect(page.locator("#solve")).to_be_enabled()
    expect(page.locator("#table tbody tr")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_other_machines_are_served_where_that_is_allowed(front):
    server = LiveServer(front, lambda _: None, {}, host="0.0.0.0", allow_remote=True)
    thread = threading.Thread(target=server.run)
    thread.start()
    token, port = server.url.partition("token=")[2], httpx.URL(server.url).port
    assert httpx.URL(server.url).host == socket.gethostname().lower()
    address = f"http://127.0.0.2:{port}/"  # this machine, by an address that was not named
    assert httpx.get(address, params={"token": token}, trust_env=False).status_code == 303
    wrong = {"Host": f"evil.example:{port}"}
    assert httpx.get(address, params={"token": token}, headers=wrong, trust_env=False).status_code == 400
    server.stop()
    thread.join()
