"""Forms of the console: login, logout, and the actions with their dry run and their log."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from londiste.cascade.switching.cluster_state import look
from londiste.changes.row_values import origin
from londiste.console.access import (
    Identity,
    Policy,
    browser_cookie,
    cookie,
    cookie_name,
    next_page,
)
from londiste.console.actions import ACTIONS, Action, Place, Ready
from londiste.console.facts import masked_text
from londiste.console.render import Renderer
from londiste.daemon.loop import as_londiste
from londiste.errors import BadOption, LondisteError
from londiste.monitor import operator_log, place
from londiste.orchestration.connections import Connections

log = logging.getLogger(__name__)

#: Bytes of a form, and characters of one of its values.
_LONGEST_FORM, _LONGEST_VALUE = 16_384, 1_000
#: Seconds for a lock, and for the answer of a server.
_LOCK_SECONDS, _ANSWER_SECONDS = 10.0, 30.0

#: How long a browser is known after a login, if the console is not restarted.
_BROWSER_SECONDS = 30 * 24 * 3600

Form = Mapping[str, str]
_T = TypeVar("_T")


class Forms:
    """Login, logout and actions; each action runs the functions of its command.

    places -- nodes of the cascade.  changed -- called after an action.
    """

    def __init__(
        self,
        policy: Policy,
        renderer: Renderer,
        places: Callable[[], Sequence[place.Place]],
        *,
        actions: bool,
        show_values: bool,
        changed: Callable[[], object],
    ) -> None:
        self._policy = policy
        self._renderer = renderer
        self._places = places
        self._actions = actions
        self._show_values = show_values
        self._changed = changed

    def routes(self) -> list[Route]:
        """The routes of what the settings allow."""
        found = [
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
        ]
        if self._actions:
            found.append(Route("/action/{name}", self._action, methods=["GET", "POST"]))
        return found

    # -- login -------------------------------------------------------------

    async def _login(self, request: HttpRequest) -> Response:
        logins = self._policy.logins
        wanted = next_page(request.query_params.get("next", ""))
        if not logins:
            raise HTTPException(404)
        if request.method != "POST":
            return self._login_page(wanted)
        form = await _form(request)
        name, password = form.get("user", ""), form.get("password", "")
        wanted = next_page(form.get("next", ""))
        client = request.client.host if request.client is not None else ""
        # Others fail at will, also behind the same proxy: who has logged in with this browser
        # before has attempts of his own.
        number = self._policy.remembered(request.scope, name)
        keys = (f"browser {number}",) if number else (f"client {client}", f"user {name}")
        pause = logins.limiter.wait(*keys)
        if pause > 0:
            text = f"Too many failed attempts. Wait {pause:.0f} seconds."
            answer = self._login_page(wanted, text, 429)
            answer.headers["Retry-After"] = f"{pause:.0f}"
            return answer
        # Counted before it is known: attempts at the same time are as many as they are.
        logins.limiter.fail(*keys)
        known = await run_in_threadpool(logins.verify, name, password)
        if not known:
            log.warning("console: failed login from %s", client)
            return self._login_page(wanted, "Wrong name or password.", 401)
        logins.limiter.succeed(*keys)
        before = cookie(request.scope, cookie_name(self._policy.secure))
        if before:
            logins.end(before)
        log.info("console: %s logged in from %s", name, client)
        done: Response = RedirectResponse(wanted, 303)
        secure = self._policy.secure
        kept = self._policy.browser(number or secrets.token_urlsafe(16), name)
        for kept_as, value, age in (
            (cookie_name(secure), logins.begin(name, known), None),
            (browser_cookie(secure), kept, _BROWSER_SECONDS),
        ):
            done.set_cookie(
                kept_as, value, age, httponly=True, secure=secure, samesite="strict", path="/"
            )
        return done

    def _login_page(self, wanted: str, error: str = "", status: int = 200) -> Response:
        html = self._renderer.page_of("login", title="Log in", wanted=wanted, error=error)
        return HTMLResponse(html, status)

    async def _logout(self, request: HttpRequest) -> Response:
        logins = self._policy.logins
        identity = identity_of(request)
        form = await _form(request)
        if identity is None or not self._policy.has_token(identity, form.get("token", "")):
            return _not_of_this_session()
        logins.end(identity.session)
        done = RedirectResponse("/login", 303)
        done.delete_cookie(
            cookie_name(self._policy.secure),
            httponly=True,
            secure=self._policy.secure,
            samesite="strict",
        )
        return done

    # -- actions -----------------------------------------------------------

    async def _action(self, request: HttpRequest) -> Response:
        identity = identity_of(request)
        action = ACTIONS.get(request.path_params["name"])
        if action is None or identity is None:
            return HTMLResponse(self._renderer.message("Not found", "No such action."), 404)
        # Words are names, which may begin or end with a space, and contain ends of lines: a field
        # of a form would not keep these.
        query = request.query_params
        values = {name: query.get(name, "")[:_LONGEST_VALUE] for name in action.words}
        if request.method != "POST":
            return await run_in_threadpool(self._prepared, action, identity, values)
        form = await _form(request)
        if not self._policy.has_token(identity, form.get("token", "")):
            return _not_of_this_session()
        values |= {
            one.name: form.get(one.name, "").strip()[:_LONGEST_VALUE] for one in action.inputs
        }
        return await run_in_threadpool(self._done, action, identity, values)

    def _prepared(self, action: Action, identity: Identity, values: Form) -> Response:
        """The page that shows what an action would do; nothing is changed."""
        values = {**values, "operator": _operator(identity)}
        try:
            steps, error = self._with_place(action, values, lambda at, ready: ready.steps), None
        except LondisteError as failure:
            steps, error = [], self._plain(failure)
        html = self._renderer.page_of(
            "action",
            title=action.title,
            action=action,
            words={name: values[name] for name in action.words},
            steps=steps,
            error=error,
            command=action.command(values),
            token=self._policy.token(identity),
        )
        return HTMLResponse(html, 200 if error is None else 409)

    def _done(self, action: Action, identity: Identity, values: Form) -> Response:
        """Runs an action, and records it at its node before and after."""
        values = {**values, "operator": _operator(identity)}
        command = action.command(values)
        log.info("console: %s: %s", values["operator"], command)

        def logged(at: Place, ready: Ready) -> str:
            args = (values["operator"], action.name, command, values.get("reason", ""))
            number = operator_log.log_action(at.conn, at.queue, *args)
            outcome = "failed"
            try:
                text = ready.run()
                outcome = "done"
                return text
            except LondisteError as failure:
                outcome = f"failed: {type(failure).__name__}"
                raise
            finally:
                operator_log.finish_action(at.conn, at.queue, number, outcome)

        try:
            text, error = self._with_place(action, values, logged), None
        except LondisteError as failure:
            text, error = "", self._plain(failure)
        self._changed()
        html = self._renderer.page_of(
            "done", title=action.title, text=text, error=error, command=command
        )
        return HTMLResponse(html, 200 if error is None else 409)

    def _with_place(self, action: Action, values: Form, use: Callable[[Place, Ready], _T]) -> _T:
        missing = [name for name in action.words if not values.get(name)]
        if missing:
            raise BadOption(
                f"{action.name}: {missing[0]} is missing", hint="follow a link of a page"
            )
        try:
            places = self._places()
            with Connections(
                name="londiste web",
                lock_timeout=_LOCK_SECONDS,
                extra=places[0].extra if places else "",
                answer_seconds=_ANSWER_SECONDS,
            ) as sites:
                scene = place.first_answer(
                    places, lambda one: look(sites, one.dsn, one.queue, one.extra)
                )
                at = Place(sites, scene, values["node"])
                scene.place(values["node"])
                return use(at, action.prepare(at, values))
        except LondisteError:
            raise
        except Exception as failure:
            log.exception("console: %s", action.name)
            raise as_londiste(failure) from failure

    def _plain(self, error: LondisteError) -> tuple[str, str, str]:
        """Message, detail and hint of an error, without values unless they are shown."""
        texts = (error.message, error.detail or "", error.hint or "")
        if self._show_values:
            return texts
        if source := origin(error):
            return source.removesuffix(": "), "", ""
        return masked_text(texts[0]), masked_text(texts[1]), texts[2]


def identity_of(request: HttpRequest) -> Identity | None:
    """Who a request is from."""
    found: Identity | None = request.scope.get("state", {}).get("identity")
    return found


def _operator(identity: Identity) -> str:
    return f"{identity.user}@{identity.client}"


def _not_of_this_session() -> Response:
    return PlainTextResponse("the form is of another session: open the page again\n", 403)


async def _form(request: HttpRequest) -> dict[str, str]:
    """The fields of a form; none if it is longer than any form of the console."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_FORM:
                return {}
    except ClientDisconnect:
        return {}
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        return {}
