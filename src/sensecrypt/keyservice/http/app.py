"""The service over HTTP: one function an address. Bodies are the protocol's messages; see /openapi.json."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from sensecrypt._version import __version__
from sensecrypt.errors import Refused
from sensecrypt.keyservice.http.addresses import MESSAGE_TYPE, PROTOCOL, ROUND, RUN
from sensecrypt.keyservice.http.certificates import Identity
from sensecrypt.keyservice.http.problems import MEDIA_TYPE, refused
from sensecrypt.keyservice.http.refusals import Refusals
from sensecrypt.keyservice.http.registry import Run
from sensecrypt.keyservice.http.service import KeyService
from sensecrypt.keyservice.names import PATTERN
from sensecrypt.protocol.round import RoundAddress

NAME = f"^{PATTERN}$"
_MOST = 2**31 - 1
_SKETCH_BYTES, _ROUND_BYTES, _RUN_BYTES = 1 << 14, 1 << 22, 1 << 22

RunName = Annotated[str, Path(pattern=NAME)]
Count = Annotated[int, Path(ge=0, le=_MOST)]
Start = Annotated[str | None, Query(pattern="^[0-9a-f]{64}$", description="the hash of what a member starts from")]


class Problem(BaseModel):
    """Why a request was not granted, and what to do about it."""

    title: str
    status: int
    code: str = Field(description="the kind of refusal, for programs")
    detail: str
    fix: str


class ServerRequest(BaseModel):
    """How a round's mean update moves a model."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rule: Literal["fedavg", "fedavgm", "fedadam", "fedyogi"] = "fedavg"
    learning_rate: float = Field(default=1.0, gt=0, le=1e6, description="of the server")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of the momentum, or of the first moment")
    beta2: float = Field(default=0.99, ge=0, lt=1, description="of the second moment")
    tau: float = Field(default=1e-3, ge=1e-12, le=1e6, description="what keeps steps small where nothing moved")
    statistics: int = Field(default=0, ge=0, le=_MOST, description="values at the end that are no parameters")


class RunRequest(BaseModel):
    """A run, as an admin registers it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    size: int = Field(ge=1, le=_MOST, description="parameters of the model")
    profile: str = Field(max_length=64, description="of its key pair; see `sensecrypt keys generate --help`")
    members: dict[Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")], Annotated[str, Field(pattern=NAME)]] = Field(
        default={}, description="the certificate's name of every client, by the client's number"
    )
    aggregators: list[Annotated[str, Field(pattern=NAME)]] = Field(
        min_length=1, max_length=100, description="names of the certificates that may register its rounds and sums"
    )
    min_contributors: int = Field(default=3, ge=1, le=_MOST, description="the fewest clients in a sum")
    quorum: float = Field(
        default=0.5, gt=0, le=1, description="the least part of a cluster's weight, and of its clients, in a sum"
    )
    first: list[tuple[int, int]] = Field(
        default=[], max_length=10_000, description="ranges [start, stop) of parameters that come first in every order"
    )
    rounds: int | None = Field(
        default=None, ge=1, le=_MOST, description="how many it has: its key is destroyed after the last"
    )
    server: ServerRequest = Field(default=ServerRequest(), description="how a round's mean update moves a model")
    release_to_aggregator: bool = Field(
        default=False, description="whether its aggregator is given the sums: members then join by themselves"
    )


def create_app(service: KeyService, refusals: Refusals) -> FastAPI:
    """All addresses of a service."""
    app = FastAPI(
        title="SenseCrypt key service",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=dict.fromkeys((422, "4XX", "5XX"), _PROBLEM),
    )
    app.state.service, app.state.refusals = service, refusals
    for kind in (Refused, RequestValidationError, HTTPException, Exception):
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
    async def metrics(_who: Annotated[Identity, Depends(_allow("admin", "monitor"))]) -> PlainTextResponse:
        """Counters, as Prometheus reads them."""
        return PlainTextResponse(service.metrics.text(audit_lines=service.store.head.number))

    @app.get("/v1/about")
    async def about(who: Annotated[Identity, Depends(_anybody)]) -> dict[str, str]:
        """Which version this is, and whom it takes you for."""
        return {"service": "dkms", "version": __version__, "protocol": PROTOCOL, "role": who.role, "name": who.name}


def _add_runs(app: FastAPI, service: KeyService) -> None:
    content = {"application/json": {"schema": RunRequest.model_json_schema()}}
    schema = {"requestBody": {"required": True, "content": content}}

    @app.put(RUN, openapi_extra=schema)
    def register_run(
        run: RunName,
        who: Annotated[Identity, Depends(_allow("admin", "aggregator"))],
        data: Annotated[bytes, _body(_RUN_BYTES)],
    ) -> dict[str, Any]:
        """Register a run: a key pair is made for it. For admins; an aggregator that the policy names, its own."""
        try:
            asked = RunRequest.model_validate_json(data)
        except ValidationError as error:
            raise refused("invalid-request", _told(error.errors(include_input=False, include_url=False))) from None
        members = {int(number): name for number, name in sorted(asked.members.items(), key=lambda item: int(item[0]))}
        fields = asked.model_dump(exclude={"members", "aggregators"})
        return service.register_run(Run(run, members=members, aggregators=sorted(asked.aggregators), **fields), who)

    @app.delete(RUN)
    def end_run(run: RunName, who: Annotated[Identity, Depends(_allow("admin"))]) -> dict[str, bool]:
        """End a run: its secret key is destroyed, and members keep what was released. For admins."""
        service.end_run(run, who)
        return {"ended": True}

    @app.get(RUN)
    def get_run(run: RunName, who: Annotated[Identity, Depends(_parties)]) -> dict[str, Any]:
        """What is public about a run, and your number in it."""
        return service.run(run, who)

    @app.get(RUN + "/key")
    def get_key(run: RunName, who: Annotated[Identity, Depends(_parties)]) -> dict[str, Any]:
        """The run's public key, as a key file."""
        return service.public_key(run, who)

    @app.put(RUN + "/samples/{samples}")
    def put_samples(
        run: RunName,
        samples: Annotated[int, Path(ge=1, le=_MOST)],
        who: Annotated[Identity, Depends(_client)],
    ) -> dict[str, bool]:
        """How many samples you train on: your weight in every sum follows from the first that you tell. For members."""
        service.keep_samples(run, samples, who)
        return {"kept": True}

    @app.put(RUN + "/members/{client}")
    def put_member(run: RunName, client: Count, who: Annotated[Identity, Depends(_client)]) -> dict[str, bool]:
        """Join a run whose sums go to its aggregator, under a number that nobody else has. For clients."""
        service.join(run, client, who)
        return {"joined": True}

    @app.put(RUN + "/sketch", response_class=_Message, openapi_extra=_MESSAGE_BODY)
    def put_sketch(
        run: RunName, who: Annotated[Identity, Depends(_client)], data: Annotated[bytes, _body(_SKETCH_BYTES)]
    ) -> Response:
        """Your sketch; it comes back turned, for the aggregator. One for each run. For members."""
        return _Message(service.rotate_sketch(run, data, who))


def _add_rounds(app: FastAPI, service: KeyService) -> None:
    @app.put(ROUND, openapi_extra=_MESSAGE_BODY)
    def register_round(
        place: Where, who: Annotated[Identity, Depends(_aggregator)], data: Annotated[bytes, _body(_ROUND_BYTES)]
    ) -> dict[str, bool]:
        """Register a round: its members and their weights. For the aggregator."""
        service.register_round(data, place, who)
        return {"registered": True}

    @app.get(ROUND + "/task", response_class=_Message)
    def get_task(place: Where, who: Annotated[Identity, Depends(_client)], start: Start = None) -> Response:
        """A round as it was registered, the members' shared seed for tags, and the order. For members."""
        return _Message(service.task(place, who, start=start))

    @app.put(ROUND + "/tag", openapi_extra=_MESSAGE_BODY)
    async def put_tag(place: Where, request: Request, who: Annotated[Identity, Depends(_client)]) -> dict[str, bool]:
        """Your tag. For members."""
        data = await read_body(request, await asyncio.to_thread(service.tag_limit, place))
        await asyncio.to_thread(service.take_tag, data, place, who)
        return {"taken": True}

    @app.get(ROUND + "/tags")
    def get_tags(place: Where, who: Annotated[Identity, Depends(_aggregator)]) -> dict[str, list[int]]:
        """Whose tags have arrived. For the aggregator."""
        return {"clients": service.tags(place, who)}

    @app.put(ROUND + "/aggregate", response_class=_Message, openapi_extra=_MESSAGE_BODY)
    async def put_aggregate(place: Where, request: Request, who: Annotated[Identity, Depends(_aggregator)]) -> Response:
        """Submit the sum: decrypted once, verified, acknowledged. For the aggregator."""
        limit = await asyncio.to_thread(service.aggregate_limit, place, who)
        with service.place_in_line(who):
            data = await read_body(request, limit)
            return _Message(await asyncio.to_thread(service.decrypt_aggregate, data, place, who))

    @app.get(ROUND + "/sum", response_class=_Message)
    async def get_sum(place: Where, who: Annotated[Identity, Depends(_aggregator)]) -> Response:
        """The released sum, in a run that releases to its aggregator. For the aggregator."""
        return _Message(await asyncio.to_thread(service.released_sum, place, who))

    @app.get(ROUND + "/model", response_class=_Message)
    async def get_model(place: Where, who: Annotated[Identity, Depends(_client)]) -> Response:
        """Your cluster's released sum. For members."""
        with contextlib.ExitStack() as stack:
            size = await asyncio.to_thread(service.model_bytes, place, who)
            stack.enter_context(service.answers.held(place, size, f"{who.role} {who.name}"))
            result = await asyncio.to_thread(service.model, place, who)
            return _Held(result, stack.pop_all())


class _Message(Response):
    media_type = MESSAGE_TYPE


class _Held(_Message):
    """An answer that gives back what it holds once it is sent, or is not to be sent any more."""

    def __init__(self, content: bytes, stack: contextlib.ExitStack) -> None:
        super().__init__(content)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._stack:
            await super().__call__(scope, receive, send)


async def read_body(request: Request, limit: int) -> bytes:
    """The body, never held beyond `limit`: what is longer is dropped as it comes, so that its sender hears why."""
    body, length = bytearray(), 0
    service: KeyService = request.app.state.service
    try:
        async with asyncio.timeout(service.policy.body_seconds):
            async for chunk in request.stream():
                length += len(chunk)
                if length <= limit:
                    body += chunk
                elif length > 2 * limit + (1 << 20):
                    break
    except ClientDisconnect:
        raise refused("broken-off", "the connection ended before the body") from None
    except TimeoutError:
        raise refused("too-slow", f"the body took longer than {service.policy.body_seconds} seconds") from None
    if length > limit:
        raise refused("too-long", f"the body is longer than {limit:,} bytes")
    return bytes(body)


def _body(limit: int) -> Any:
    async def read(request: Request, _who: Annotated[Identity, Depends(_anybody)]) -> bytes:
        return await read_body(request, limit)

    return Depends(read)


async def _anybody(request: Request) -> Identity:
    who: Identity = request.state.who
    return who


def _allow(*roles: str) -> Callable[[Request], Awaitable[Identity]]:
    async def allowed(request: Request) -> Identity:
        who: Identity = request.state.who
        if who.role not in roles:
            raise refused("wrong-role", f"this is for {' or '.join(roles)}, the certificate says {who.role}")
        return who

    return allowed


_client, _aggregator = _allow("client"), _allow("aggregator")
_parties = _allow("admin", "aggregator", "client")


async def _place(
    run: RunName, number: Count, cluster: Count, purpose: Literal["model", "sensitivity"], attempt: Count
) -> RoundAddress:
    return RoundAddress(run, number, cluster, purpose, attempt)


Where = Annotated[RoundAddress, Depends(_place)]
_PROBLEM: dict[str, Any] = {
    "description": "not granted",
    "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}},
}
_MESSAGE_BODY = {
    "requestBody": {"required": True, "content": {MESSAGE_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = refused("invalid-request", _told(error.errors()))
    elif isinstance(error, HTTPException):
        known = {404: "not-found", 405: "wrong-method"}
        error = refused(known.get(error.status_code, "invalid-request"), "there is nothing of the kind at this address")
    elif not isinstance(error, Refused):
        error = refused("internal", "the service failed")
    refusals: Refusals = request.app.state.refusals
    return await refusals.answer(error, request.scope)


def _told(problems: Any) -> str:
    """Where and what, never the value."""
    parts = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in list(problems)[:3]]
    return "; ".join(parts)[:300] or "the request cannot be read"
