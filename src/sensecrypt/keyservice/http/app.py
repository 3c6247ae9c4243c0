"""The service over HTTP: one function per address. Bodies are the protocol's messages; see /openapi.json."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from sensecrypt._version import __version__
from sensecrypt.errors import Refused, Rejected, WorkerDied
from sensecrypt.keyservice.http.addresses import MESSAGE_TYPE, PROTOCOL, ROUND, RUN
from sensecrypt.keyservice.http.certificates import ROLES, Identity
from sensecrypt.keyservice.http.problems import MEDIA_TYPE, from_rejected, refused
from sensecrypt.keyservice.http.refusals import Refusals
from sensecrypt.keyservice.http.runs import MOST, NAME, Run, RunRequest
from sensecrypt.keyservice.http.service import KeyService
from sensecrypt.protocol.round import RoundAddress

_SKETCH_BYTES, _ROUND_BYTES, _RUN_BYTES = 1 << 14, 1 << 22, 1 << 22


class Problem(BaseModel):
    """The reason why a request was not granted, and the fix."""

    title: str
    status: int
    code: str = Field(description="the kind of refusal, for programs")
    detail: str
    fix: str


class Message(Response):
    """One of the protocol's messages."""

    media_type = MESSAGE_TYPE


class ModelMessage(Message):
    """A model, which counts as in memory until it is sent, or given up."""

    def __init__(self, content: bytes, sending: contextlib.ExitStack) -> None:
        super().__init__(content)
        self._sending = sending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._sending:
            await super().__call__(scope, receive, send)


def _sender(*roles: str) -> Any:
    """A parameter: the identity of the sender, which has one of these roles."""

    async def allowed(request: Request) -> Identity:
        who: Identity = request.state.who
        if who.role not in roles:
            raise refused("wrong-role", f"this is for {' or '.join(roles)}, the certificate says {who.role}")
        return who

    return Depends(allowed)


def _body(limit: int) -> Any:
    """A parameter: a body of at most `limit` bytes, read after the parameters before it are checked."""

    async def read(request: Request) -> bytes:
        return await read_body(request, limit)

    return Depends(read)


async def read_body(request: Request, limit: int) -> bytes:
    """Read a body of at most `limit` bytes; a longer one is read but dropped, so that its sender gets the reason."""
    body, length = bytearray(), 0
    seconds = request.app.state.service.policy.body_seconds
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                length += len(chunk)
                if length <= limit:
                    body += chunk
                elif length > 2 * limit + (1 << 20):
                    break
    except ClientDisconnect:
        raise refused("broken-off", "the connection ended before the body") from None
    except TimeoutError:
        raise refused("too-slow", f"the body took longer than {seconds} seconds") from None
    if length > limit:
        raise refused("too-long", f"the body is longer than {limit:,} bytes")
    return bytes(body)


RunName = Annotated[str, Path(pattern=NAME)]
Count = Annotated[int, Path(ge=0, le=MOST)]
Purpose = Literal["model", "sensitivity"]


async def _place(run: RunName, number: Count, cluster: Count, purpose: Purpose, attempt: Count) -> RoundAddress:
    return RoundAddress(run, number, cluster, purpose, attempt)


Place = Annotated[RoundAddress, Depends(_place)]
Start = Annotated[str | None, Query(pattern="^[0-9a-f]{64}$", description="the hash of what a member starts from")]
Admin = Annotated[Identity, _sender("admin")]
Aggregator = Annotated[Identity, _sender("aggregator")]
Client = Annotated[Identity, _sender("client")]
Anyone = Annotated[Identity, _sender(*ROLES)]
_PROBLEM = {"description": "not granted", "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}


def _content(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI description of a body that a function reads itself."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


_MESSAGE = _content(MESSAGE_TYPE, {"type": "string", "format": "binary"})


def create_app(service: KeyService, refusals: Refusals) -> FastAPI:
    """The service's application with all its addresses."""
    app = FastAPI(
        title="SenseCrypt key service",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=dict.fromkeys((422, "4XX", "5XX"), _PROBLEM),
    )
    app.state.service, app.state.refusals = service, refusals
    for kind in (Refused, Rejected, WorkerDied, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer_error)
    _add_general(app, service)
    _add_runs(app, service)
    _add_rounds(app, service)
    return app


def _add_general(app: FastAPI, service: KeyService) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether the service runs and can write its state; needs no certificate."""
        if service.store.broken:
            raise refused("storage", "the service cannot write its state")
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics(_who: Annotated[Identity, _sender("admin", "monitor")]) -> PlainTextResponse:
        """Counters, as Prometheus reads them."""
        return PlainTextResponse(service.metrics.text(audit_lines=service.store.head.number))

    @app.get("/v1/about")
    async def about(who: Anyone) -> dict[str, str]:
        """The service's version, and the identity in your certificate."""
        return {"service": "dkms", "version": __version__, "protocol": PROTOCOL, "role": who.role, "name": who.name}


def _add_runs(app: FastAPI, service: KeyService) -> None:
    @app.put(RUN, openapi_extra=_content("application/json", RunRequest.model_json_schema()))
    def put_run(
        run: RunName,
        who: Annotated[Identity, _sender("admin", "aggregator")],
        data: Annotated[bytes, _body(_RUN_BYTES)],
    ) -> dict[str, Any]:
        """Register a run; a key pair is made for it. For admins, and aggregators in the policy's `release_to`."""
        try:
            asked = RunRequest.model_validate_json(data)
        except ValidationError as error:
            raise refused("invalid-request", _explain(error.errors(include_input=False, include_url=False))) from None
        fields = {**dict(asked), "aggregators": sorted(asked.aggregators)}
        return service.register_run(Run(run=run, **fields), who)

    @app.delete(RUN)
    def delete_run(run: RunName, who: Admin) -> dict[str, bool]:
        """End a run: its secret key is destroyed, and members keep what was released. For admins."""
        service.end_run(run, who)
        return {"ended": True}

    @app.get(RUN)
    def get_run(run: RunName, who: Annotated[Identity, _sender("admin", "aggregator", "client")]) -> dict[str, Any]:
        """What is public about a run, and your number in it."""
        return service.run(run, who)

    @app.get(RUN + "/key")
    def get_key(run: RunName, who: Annotated[Identity, _sender("admin", "aggregator", "client")]) -> dict[str, Any]:
        """The run's public key, as a key file."""
        return service.public_key(run, who)

    @app.put(RUN + "/samples/{samples}")
    def put_samples(run: RunName, samples: Annotated[int, Path(ge=1, le=MOST)], who: Client) -> dict[str, bool]:
        """Report how many samples you train on; your weight follows from your first report. For members."""
        service.keep_samples(run, samples, who)
        return {"kept": True}

    @app.put(RUN + "/members/{client}")
    def put_member(run: RunName, client: Count, who: Client) -> dict[str, bool]:
        """Join a run whose sums go to its aggregator, under a number of your own. For clients."""
        service.join(run, client, who)
        return {"joined": True}

    @app.put(RUN + "/sketch", response_class=Message, openapi_extra=_MESSAGE)
    def put_sketch(run: RunName, who: Client, data: Annotated[bytes, _body(_SKETCH_BYTES)]) -> Response:
        """Send your sketch and get it rotated, for the aggregator. One per run. For members."""
        return Message(service.rotate_sketch(run, data, who))


def _add_rounds(app: FastAPI, service: KeyService) -> None:
    @app.put(ROUND, openapi_extra=_MESSAGE)
    def put_round(place: Place, who: Aggregator, data: Annotated[bytes, _body(_ROUND_BYTES)]) -> dict[str, bool]:
        """Register a round: its members and their weights. For the aggregator."""
        service.register_round(data, place, who)
        return {"registered": True}

    @app.get(ROUND + "/task", response_class=Message)
    def get_task(place: Place, who: Client, start: Start = None) -> Response:
        """A round as it was registered, the members' common seed for tags, and the importance order. For members."""
        return Message(service.task(place, who, start=start))

    @app.put(ROUND + "/tag", openapi_extra=_MESSAGE)
    async def put_tag(place: Place, request: Request, who: Client) -> dict[str, bool]:
        """Send your tag. For members."""
        data = await read_body(request, await asyncio.to_thread(service.tag_limit, place))
        await asyncio.to_thread(service.take_tag, data, place, who)
        return {"taken": True}

    @app.get(ROUND + "/tags")
    def get_tags(place: Place, who: Aggregator) -> dict[str, list[int]]:
        """The clients whose tags have arrived. For the aggregator."""
        return {"clients": service.tags(place, who)}

    @app.put(ROUND + "/aggregate", response_class=Message, openapi_extra=_MESSAGE)
    async def put_aggregate(place: Place, request: Request, who: Aggregator) -> Response:
        """Submit a sum: it is decrypted once, verified and acknowledged. For the aggregator."""
        limit = await asyncio.to_thread(service.aggregate_limit, place, who)
        with service.waiting(who):
            data = await read_body(request, limit)
            return Message(await asyncio.to_thread(service.release, data, place, who))

    @app.get(ROUND + "/sum", response_class=Message)
    async def get_sum(place: Place, who: Aggregator) -> Response:
        """The released sum, in a run that releases to its aggregator. For the aggregator."""
        return Message(await asyncio.to_thread(service.released_sum, place, who))

    @app.get(ROUND + "/model", response_class=Message)
    async def get_model(place: Place, who: Client) -> Response:
        """Your cluster's released sum. For members."""
        with contextlib.ExitStack() as sending:
            return ModelMessage(await asyncio.to_thread(service.model, place, who, sending), sending.pop_all())


async def _answer_error(request: Request, error: Exception) -> Response:
    """The answer to any exception, in one format."""
    if isinstance(error, Rejected):
        error = from_rejected(error)
    elif isinstance(error, WorkerDied):
        error = refused("decryption-failed", str(error))
    elif isinstance(error, RequestValidationError):
        error = refused("invalid-request", _explain(error.errors()))
    elif isinstance(error, HTTPException):
        code = {404: "not-found", 405: "wrong-method"}.get(error.status_code, "invalid-request")
        error = refused(code, "there is nothing of this kind at this address")
    elif not isinstance(error, Refused):
        error = refused("internal", "the service failed")
    refusals: Refusals = request.app.state.refusals
    return await refusals.answer(error, request.scope)


def _explain(problems: Any) -> str:
    """Places and reasons, never the values."""
    parts = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in list(problems)[:3]]
    return "; ".join(parts)[:300] or "the request cannot be read"
