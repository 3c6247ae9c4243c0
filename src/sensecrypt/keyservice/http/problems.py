"""All refusals: code, HTTP status, and the fix. Answers are problem documents (RFC 9457)."""

from __future__ import annotations

import json

from sensecrypt.errors import Refused, Rejected

MEDIA_TYPE = "application/problem+json"

_AGAIN = "send it again later; nothing is lost, and nothing is done twice"
PROBLEMS: dict[str, tuple[int, str]] = {
    "no-certificate": (401, "connect with a client certificate of this service's authority"),
    "handshake-failed": (401, "use a certificate of this service's authority, valid today"),
    "no-role": (403, "ask for a certificate with a role"),
    "denied": (403, "the policy denies this name: ask the operator"),
    "wrong-role": (403, "use a certificate of the role that this request needs"),
    "not-a-member": (403, "ask for your own cluster of a round that you are a member of"),
    "not-the-aggregator": (403, "use the certificate of an aggregator that the run was registered with"),
    "other-version": (400, "install the same version of sensecrypt on both sides"),
    "unknown-run": (404, "have an admin register the run first"),
    "unknown-round": (404, "have the aggregator register the round first"),
    "not-found": (404, "see /openapi.json for the addresses"),
    "not-released": (404, "ask again after the aggregator has submitted the round's sum"),
    "no-order": (404, "use the natural order, or sum sensitivities first"),
    "wrong-method": (405, "see /openapi.json for the addresses"),
    "broken-off": (400, _AGAIN),
    "too-slow": (408, _AGAIN),
    "conflict": (409, "use another name, or send what was sent before"),
    "already-decrypted": (409, "go on with the next round: a sum is decrypted once"),
    "claimed": (409, "send the aggregate that was sent first, or start the round's next attempt"),
    "superseded": (409, "go on with the round's latest attempt"),
    "doubled-tag": (409, "a client sends one tag per round: start the round's next attempt"),
    "another-start": (409, "send nothing: the aggregator sends different models to its clients; ask its operator"),
    "two-clusters": (409, "put every client into one cluster per round"),
    "no-samples": (409, "have every member enrol first: it reports how many samples it has"),
    "other-weights": (422, "weigh members by the samples that they reported, as `ReleaseRules.weights` does"),
    "too-long": (413, "send the message of this round, of the registered model"),
    "invalid-request": (422, "see /openapi.json for its format"),
    "rejected": (422, "send a message that this version's protocol made, for this round"),
    "outside-policy": (422, "change the request, or have the operator change policy.toml"),
    "too-few-contributors": (422, "wait for more uploads, or start the round again with more members"),
    "groups": (422, "add up whole groups: clients that were together in earlier sums stay together"),
    "doubled-contributor": (422, "name every contributor once"),
    "no-tag": (422, "wait for the tag, or leave that client's upload out"),
    "tags-mismatch": (422, "add up the round again from its uploads"),
    "run-ended": (410, "register a new run: the key of this one is destroyed"),
    "too-many-failures": (429, "look for the faulty upload; then raise failures_per_round in policy.toml to go on"),
    "run-closed": (429, "look for the faulty client; a new run needs another model: clients start from one once"),
    "rate-limited": (429, _AGAIN),
    "internal": (500, "look into the service's log"),
    "storage": (503, "check the disk that the service's folder is on"),
    "busy": (503, _AGAIN),
    "decryption-failed": (503, _AGAIN),
}


def refused(code: str, reason: str) -> Refused:
    """A refusal with the fix that goes with its code."""
    return Refused(code, reason, PROBLEMS[code][1])


def from_rejected(error: Rejected) -> Refused:
    """The service's refusal for one of the protocol."""
    code = error.code if error.code in PROBLEMS else "rejected"
    return refused(code, str(error))


def status_of(error: Refused) -> int:
    """The HTTP status of a refusal."""
    return PROBLEMS.get(error.code, (400, ""))[0]


def document(error: Refused) -> bytes:
    """The body of the answer."""
    title = error.code.replace("-", " ")
    fields = {"title": title, "status": status_of(error), "code": error.code, "detail": error.reason, "fix": error.fix}
    return json.dumps(fields).encode()


def read_document(body: bytes, status: int) -> Refused:
    """The refusal in an answer; an answer of another program, such as a proxy, is one as well."""
    try:
        fields = json.loads(body)
        return Refused(str(fields["code"]), str(fields["detail"]), str(fields["fix"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        fix = "check that the address is this service's and that no proxy is in between"
        return Refused("unknown", f"an answer of status {status} that is not of this service", fix)
