"""The decision maker's page: choose a point of the front, or solve for a new one, in a browser on this machine."""

import contextlib
import ipaddress
import secrets
import socket
import webbrowser
from collections.abc import Callable
from typing import Any

from bipareto.errors import flag, message, positive_number, whole_number
from bipareto.front import Front
from bipareto.report.session import Session


def serve(
    front: Front,
    *,
    save: Callable[[Front], None],
    facts: dict[str, Any],
    host: str = "127.0.0.1",
    port: int = 0,
    allow_remote: bool = False,
    time_limit: float = 600.0,
    steps: int | None = None,
    open_browser: bool = False,
) -> None:
    """Serve the front's page until Ctrl-C; the address printed holds the token without which nothing is answered.

    `save(front)`: called after every point that joins. `facts`: as of `Run`, and a "name" for the page. `port` 0: any free
    one. `allow_remote`: let `host` be an address that other machines reach; what is sent is not encrypted. `time_limit`:
    seconds for one solve. `steps`: of one solve; None for as many as the front's own runs took.
    """
    live = LiveServer(front, save, facts, host, port, allow_remote, time_limit, steps)
    print(f"Open {live.url}\n(Ctrl-C ends)", flush=True)
    if open_browser:
        webbrowser.open(live.url)
    with contextlib.suppress(KeyboardInterrupt):
        live.run()


class LiveServer:
    """A socket that is bound, and what is served there; `run` serves until a signal or `stop`."""

    def __init__(
        self,
        front: Front,
        save: Callable[[Front], None],
        facts: dict[str, Any],
        host: str = "127.0.0.1",
        port: int = 0,
        allow_remote: bool = False,
        time_limit: float = 600.0,
        steps: int | None = None,
    ):
        if not isinstance(front, Front):
            raise TypeError(message("front", "be a Front", repr(front), "pass what bp.explore returned"))
        limit = float(positive_number("time_limit", time_limit, "pass seconds, such as 600.0"))
        steps = None if steps is None else whole_number("steps", steps, "pass a number of upper steps, or None")
        uvicorn, application = _libraries()
        self.session = Session(front, save, facts, limit, steps)
        self.socket = _bound(host, port, flag("allow_remote", allow_remote))
        place, number = self.socket.getsockname()[:2]
        token = secrets.token_urlsafe(32)
        shown = f"[{place}]" if ":" in place else place
        self.url = f"http://{socket.gethostname() if place in ('0.0.0.0', '::') else shown}:{number}/?token={token}"
        names = {"localhost", host.lower(), socket.gethostname().lower()}
        app = application(self.session, token, names, f"bipareto_{number}")
        # Whoever reads events never leaves by itself: one second is enough for the others.
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1, server_header=False)
        self.server = uvicorn.Server(config)

    def run(self) -> None:
        try:
            self.server.run(sockets=[self.socket])
        finally:
            self.session.close()

    def stop(self) -> None:
        self.server.should_exit = True


def _bound(host: Any, port: Any, allow_remote: bool) -> socket.socket:
    if not isinstance(host, str) or not (allow_remote or _loopback(host)):
        remedy = "use 127.0.0.1, or allow_remote=True where everyone on the network may be trusted"
        raise ValueError(message("host", "be an address of this machine alone", repr(host), remedy))
    remedy = "pass another port, or 0 for any free one"
    number = whole_number("port", port, remedy, least=0)
    if number > 65_535:
        raise ValueError(message("port", "be at most 65535", number, remedy))
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, number), family=family)
    except OSError as error:
        raise ValueError(message("port", "be free on this host", f"{host}:{number} ({error})", remedy)) from error


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _libraries() -> Any:
    try:
        import uvicorn

        from bipareto.report.app import application
    except ImportError as error:
        text = message("starlette and uvicorn", "be installed for the page", error, "pip install starlette uvicorn plotly")
        raise ModuleNotFoundError(text) from None
    return uvicorn, application
