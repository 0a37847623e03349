"""The routes of the live page, and who may use them."""

import asyncio
import hmac
import http
import json
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bipareto.report.document import EMPTY_STYLE, POLICY, SCRIPTS, asset, live_page, plotly_script
from bipareto.report.session import Busy, Session, exported

BODY_LIMIT = 16_384
HEADERS = {
    "Content-Security-Policy": POLICY.format(scripts="'self'", styles=f"'self' {EMPTY_STYLE}")
    + "; connect-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets pass only who addresses this server by its own name, from its own page, with its token."""

    def __init__(self, app: ASGIApp, token: str, hosts: set[str], cookie: str):
        self.app, self.token, self.hosts, self.cookie = app, token, hosts, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close"})

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        return await (self._refusal(scope) or self.app)(scope, receive, sealed)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to who may not pass; one to the address with the token is the cookie that holds it from then on."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _name(host) not in {*self.hosts, scope["server"][0]}:
            return problem(400, "This server does not go by that name.")
        origin = headers.get("origin")
        if origin != f"http://{host}" and (origin is not None or scope["method"] not in ("GET", "HEAD")):
            return problem(403, "Only the page of this server may ask for that.")
        given = urllib.parse.parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and self._right(given):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            return answer
        if not self._right(cookie_parser(headers.get("cookie", "")).get(self.cookie, "")):
            return problem(401, "Open the address that was printed when the server started: it holds the token.")
        return None

    def _right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())


class Answers:
    """What the routes answer, of one session."""

    def __init__(self, session: Session):
        self.session = session
        self.files = {name: (asset(name), "text/javascript") for name in SCRIPTS} | {
            "page.css": (asset("page.css"), "text/css"),
            "plotly.js": (plotly_script(), "text/javascript"),
        }

    def page(self, _: Request) -> Response:
        return HTMLResponse(live_page(self.session.run.name))

    def file(self, request: Request) -> Response:
        if request.path_params["name"] not in self.files:
            raise HTTPException(404)
        text, kind = self.files[request.path_params["name"]]
        return Response(text, media_type=kind)

    def front(self, _: Request) -> Response:
        return Response(self.session.page(), media_type="application/json")

    def variables(self, request: Request) -> Response:
        index = request.path_params["index"]
        try:
            data = exported(self.session.front, index)
        except IndexError:
            return problem(404, "There is no such run.")
        except ValueError as error:
            return problem(404, str(error))
        name = {"Content-Disposition": f'attachment; filename="x-{index}.npz"'}
        return Response(data, media_type="application/octet-stream", headers=name)

    async def solve(self, request: Request) -> Response:
        try:
            self.session.solve((await _content(request)).get("preference"))
        except Busy as busy:
            return problem(409, str(busy))
        except (TypeError, ValueError) as error:
            return problem(400, str(error))
        return JSONResponse({}, 202)

    async def cancel(self, request: Request) -> Response:
        await _content(request)
        self.session.cancel()
        return JSONResponse({}, 202)

    async def events(self, _: Request) -> Response:
        return StreamingResponse(_events(self.session), media_type="text/event-stream")


def application(session: Session, token: str, hosts: set[str], cookie: str) -> ASGIApp:
    """The page of a session. `hosts`: the names it goes by, besides the address it is reached at."""
    answers = Answers(session)
    routes = [
        Route("/", answers.page),
        Route("/assets/{name}", answers.file),
        Route("/api/front", answers.front),
        Route("/api/x/{index:int}", answers.variables),
        Route("/api/events", answers.events),
        Route("/api/solve", answers.solve, methods=["POST"]),
        Route("/api/cancel", answers.cancel, methods=["POST"]),
    ]
    handlers: Any = {HTTPException: lambda _, error: problem(error.status_code, error.detail)}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token, hosts, cookie)


def problem(status: int, text: str) -> Response:
    return JSONResponse({"problem": text or http.HTTPStatus(status).phrase}, status)


async def _content(request: Request) -> dict[str, Any]:
    """The JSON table of a request, no longer than it can be."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise HTTPException(415, "Send application/json.")
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_LIMIT:
            raise HTTPException(413, f"Send at most {BODY_LIMIT} bytes.")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise HTTPException(400, "Send JSON.") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "Send a JSON table.")
    return content


async def _events(session: Session) -> AsyncIterator[str]:
    """Server-sent events, with a comment now and then by which a reader that left is noticed."""
    queue: asyncio.Queue = asyncio.Queue()
    session.listen(queue)
    try:
        while True:
            try:
                kind, facts = await asyncio.wait_for(queue.get(), 15)
                yield f"event: {kind}\ndata: {json.dumps(facts)}\n\n"
            except TimeoutError:
                yield ": waiting\n\n"
    finally:
        session.unlisten(queue)


def _name(host: str) -> str:
    """The name in a Host header, less the port: behind a tunnel that is another."""
    try:
        return urllib.parse.urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
