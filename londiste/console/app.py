"""Application of the console: pages, their JSON below /api/v1, and the streams that update them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from londiste.console.access import Gate, Policy
from londiste.console.collect import Snapshot
from londiste.console.forms import Forms, identity_of
from londiste.console.pages import (
    cascade,
    changes,
    copies,
    drift,
    failed,
    moves,
    queues,
    tables,
)
from londiste.console.pages.common import Build, MigrationRow, Page, Request
from londiste.console.render import Renderer, Visitor
from londiste.console.security import Guard
from londiste.console.watch import View, Watch
from londiste.monitor.place import Place

_STATIC = Path(__file__).parent / "static"
#: Pages that stay open at the same time; each has a stream.
MOST_STREAMS = 32


@dataclass(frozen=True)
class Entry:
    """A page; kind -- the class of its values."""

    name: str
    title: str
    kind: type[Page]
    build: Build


PAGES = (
    Entry("cascade", "Cascade", cascade.CascadePage, cascade.build),
    Entry("tables", "Tables", tables.TablesPage, tables.build),
    Entry("copies", "Copies", copies.CopiesPage, copies.build),
    Entry("queues", "Queues", queues.QueuesPage, queues.build),
    Entry("failed", "Failed events", failed.FailedPage, failed.build),
    Entry("drift", "Drift", drift.DriftPage, drift.build),
    Entry("moves", "Moves", moves.MovesPage, moves.build),
    Entry("changes", "Log of changes", changes.ChangesPage, changes.build),
)


class Console:
    """The pages of one cascade.

    migration -- its state, if it is one.  policy -- who may reach it.
    """

    def __init__(
        self,
        watch: Watch,
        migration: Callable[[Snapshot], MigrationRow | None] = lambda snapshot: None,
        policy: Policy | None = None,
    ) -> None:
        self._migration = migration
        self._policy = policy or Policy()
        self._actions = False
        self._watch = watch
        self._renderer = Renderer([(p.name, p.title) for p in PAGES], watch.history.seconds)
        self._streams = 0

    def forms(
        self,
        places: Callable[[], Sequence[Place]],
        changed: Callable[[], object],
        *,
        actions: bool,
        show_values: bool,
    ) -> Forms:
        """The forms of this console; changed -- called after an action."""
        self._actions = actions
        return Forms(
            self._policy,
            self._renderer,
            places,
            actions=actions,
            show_values=show_values,
            changed=changed,
        )

    def app(self, public_url: str = "", forms: Forms | None = None) -> ASGIApp:
        """The application; public_url -- its address in browsers, if it is another one."""
        routes = [
            Route("/", lambda request: RedirectResponse("/cascade", 307)),
            Route("/healthz", lambda request: PlainTextResponse("ok\n")),
            Mount("/static", StaticFiles(directory=_STATIC)),
            *(forms.routes() if forms is not None else ()),
        ]
        for entry in PAGES:
            routes += self._routes(entry)
        inner = Starlette(routes=routes, exception_handlers={404: self._missing})
        return Guard(Gate(inner, self._policy), public_url)

    def _visitor(self, request: HttpRequest) -> Visitor:
        identity = identity_of(request)
        if identity is None:
            return Visitor()
        of_proxy = identity.session.startswith("proxy:")
        token = "" if of_proxy else self._policy.token(identity)
        return Visitor(identity.user, token, self._actions)

    def _routes(self, entry: Entry) -> list[Route | Mount]:
        document: TypeAdapter[Page] = TypeAdapter(entry.kind)

        def made(request: HttpRequest, view: View) -> Page:
            migration = None if view.snapshot is None else self._migration(view.snapshot)
            query = dict(request.query_params)
            return entry.build(Request(view, self._watch.history, query, migration))

        def html(request: HttpRequest, view: View) -> str:
            query = dict(request.query_params)
            page = made(request, view)
            visitor = self._visitor(request)
            return self._renderer.page(entry.name, entry.title, page, query, visitor)

        def page(request: HttpRequest) -> Response:
            return HTMLResponse(html(request, self._watch.view()))

        def api(request: HttpRequest) -> Response:
            found = made(request, self._watch.view())
            status = 503 if found.error and found.taken_at is None else 200
            return Response(document.dump_json(found), status, media_type="application/json")

        async def live(request: HttpRequest) -> Response:
            if self._streams >= MOST_STREAMS:
                return PlainTextResponse("too many open pages\n", 503)

            async def events() -> AsyncIterator[bytes]:
                async for view in self._watch.views():
                    known = self._policy.identify(request.scope, touch=False)
                    if known is None and self._policy.is_closed:
                        return
                    yield _event(await run_in_threadpool(html, request, view))

            # Counted here: others ask before the first event is made.
            self._streams += 1
            return _LivePage(events(), self._left)

        return [
            Route(f"/{entry.name}", page),
            Route(f"/live/{entry.name}", live),
            Route(f"/api/v1/{entry.name}", api),
        ]

    def _left(self) -> None:
        self._streams -= 1

    def _missing(self, request: HttpRequest, error: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            body = b'{"version":1,"error":"no such document"}'
            return Response(body, 404, media_type="application/json")
        text = "This page does not exist."
        return HTMLResponse(self._renderer.message("Not found", text), 404)


class _LivePage(StreamingResponse):
    """A stream of events; left -- called when it has ended, also if it never began."""

    def __init__(self, events: AsyncIterator[bytes], left: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._left()


def _event(text: str) -> bytes:
    """A server-sent event with a whole page; the script of the page takes its parts."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: page\n{lines}\n".encode()
