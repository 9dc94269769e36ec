"""Deeds with documents, of operators, and on users as a whole. For tests."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.isolation.personal import HOSTILE, SESSIONS, who_asks
from tests.isolation.world import OFTEN, TENANTS, USERS, WORD, Pick, Text, Who, World, words_in
from tests.knowledge.calls import finish_jobs

DOCUMENTS = ("d1", "a/b", "a%2Fb", "documents--acme", "d1#0", "s1")
SOURCES = ("handbook", "hand/book")
DEPARTMENTS = (None, "sales", "hr")
TOKENS = {tenant: f"token-of-{tenant}" for tenant in TENANTS}


def document(w: World, who: Who, pick: Pick) -> dict[str, Any]:
    """Make a document whose metadata claims to be another user's and another tenant's."""
    department, user = pick.one(DEPARTMENTS), pick.one((None, *USERS))
    word = w.word(who, None, department=department, about=user)
    claims = {"department": department, "user_id": user, "session_id": pick.one(SESSIONS)}
    return {
        "id": pick.one(DOCUMENTS),
        "text": pick.one(("", HOSTILE)) + f"The code of the cabin is {word}. I live in {word}.",
        "source": pick.one(SOURCES),
        "metadata": {**claims, "memory_type": "episode", "owner": "ada"},
    }


async def puts_documents(w: World, pick: Pick) -> None:
    who = pick.one(w.callers("admin") if pick.one(OFTEN) else w.callers())
    body = {"documents": [document(w, who, pick)]}
    done = await w.send(who, "POST /documents", sees="documents", json=body)
    if done.is_success:
        for one in body["documents"]:
            w.note(who, "document", one["id"])
            if HOSTILE in one["text"]:
                w.note(who, "entry", ("document", one["id"]))


async def uploads(w: World, pick: Pick) -> None:
    who = pick.one(w.callers("admin") if pick.one(OFTEN) else w.callers("user"))
    user = pick.one(USERS)
    word = w.word(who, None, department="hr", about=user)
    if pick.one((True, False)):
        rows = f"id,user_id,department,remark\n1,{user},hr,about {word}\n2,,hr,none\n"
        data = {"source": pick.one(SOURCES), "key": "id"}
        file = ("table.csv", rows.encode())
        await w.send(who, "POST /documents/table", sees="all", files={"file": file}, data=data)
        return
    w.texts[word].department, w.texts[word].about = None, None
    file = ("text.md", f"# Of {word}\n\nThe code is {word}.\n".encode())
    data = {"source": pick.one(SOURCES)}
    await w.send(who, "POST /documents/file", sees="all", files={"file": file}, data=data)


async def reads_documents(w: World, pick: Pick) -> None:
    who = pick.one(w.callers("admin") if pick.one(OFTEN) else w.callers())
    how = partial(w.send, sees="documents")
    if pick.one((True, False)):
        source = pick.one((None, *SOURCES))
        params = {"limit": 500} | ({} if source is None else {"source": source})
        await how(who, "GET /documents", params=params)
    else:
        path = {"document_id": some(w, who, pick, "document", "d1")}
        await how(who, "GET /documents/{document_id}", path=path)


async def deletes_documents(w: World, pick: Pick) -> None:
    who = pick.one(w.callers("admin") if pick.one(OFTEN) else w.callers("user"))
    name = some(w, who, pick, "document", "d1")
    match pick.one(("one", "some", "source")):
        case "one":
            await w.send(who, "DELETE /documents/{document_id}", path={"document_id": name})
        case "some":
            await w.send(who, "POST /documents/delete", json={"ids": [name]})
        case _:
            await w.send(who, "DELETE /documents", params={"source": pick.one(SOURCES)})


async def sends_a_webhook(w: World, pick: Pick) -> None:
    by_url, user = pick.one((True, False)), pick.one(USERS)
    tenant = pick.one(TENANTS) if by_url else "default"
    nobody = Who(tenant, "nobody")
    word = w.word(nobody, None, about=user)
    body = {"type": "ticket", "id": pick.one((1, 2, 3)), "user_id": user, "note": f"On {word}."}
    path = {"provider": "generic"}
    if by_url:
        path["token"] = TOKENS[tenant]
        await w.send(nobody, "POST /webhooks/{provider}/{token}", path=path, json=body)
    else:
        bearer = {"Authorization": f"Bearer {TOKENS[tenant]}"}
        route = "POST /webhooks/{provider}"
        await w.send(nobody, route, path=path, json=body, headers=bearer)


async def operates(w: World, pick: Pick) -> None:
    """Look at what operators see: of their own tenant, and of no user's texts but a few."""
    who = pick.one(w.callers("admin") if pick.one(OFTEN) else w.callers())
    route, params = pick.one(LOOKS)
    may_tell = route == "GET /quarantine"
    done = await w.send(who, route, sees="all", params=params, told=lambda _: may_tell)
    if route == "GET /audit" and words_in(done):
        raise AssertionError("the audit log tells what was written")
    if done.is_success and (found := LISTS.get(route)) is not None:
        kind, listed = found
        for one in done.json()[listed]:
            if kind == "entry":
                w.note(who, kind, (one["kind"], one["ref"]))
            elif kind != "key" or one["name"] == "spare":
                w.note(who, kind, one["id"])


LISTS = {
    "GET /quarantine": ("entry", "entries"),
    "GET /jobs": ("job", "jobs"),
    "GET /webhooks/inbox": ("delivery", "deliveries"),
    "GET /keys": ("key", "keys"),
}
LOOKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GET /quarantine", {"limit": 200}),
    ("GET /jobs", {"kind": "sync_documents"}),
    ("GET /jobs", {"kind": "load"}),
    ("GET /jobs", {"kind": "erase_user"}),
    ("GET /webhooks/inbox", {"limit": 500}),
    ("GET /audit", {"limit": 500}),
    ("GET /keys", {}),
    ("GET /stats", {}),
    ("GET /metrics", {}),
    ("GET /health/live", {}),
    ("GET /health/ready", {}),
    ("GET /v1/models", {}),
    ("GET /usage", {"by": "user"}),
)


async def operates_on_one(w: World, pick: Pick) -> None:
    """Look at one thing by its id, or change it; it may be another tenant's."""
    who = pick.one(w.callers("admin") if pick.one(OFTEN) else w.callers("gateway"))
    match pick.one(("job", "delivery", "key", "rotate", "revoke", *["entry"] * 3, "model")):
        case "job":
            await w.send(
                who, "GET /jobs/{job_id}", sees="all", path={"job_id": some(w, who, pick, "job")}
            )
        case "delivery":
            path = {"id": some(w, who, pick, "delivery", pick.one((1, 2, 3)))}
            await w.send(who, "POST /webhooks/inbox/{id}/replay", sees="all", path=path)
        case "key":
            await w.send(who, "GET /keys/{key_id}", path={"key_id": some(w, who, pick, "key")})
        case "rotate":
            path, body = {"key_id": some(w, who, pick, "key")}, {"grace_hours": 1}
            await w.send(who, "POST /keys/{key_id}/rotate", path=path, json=body)
        case "revoke":
            await w.send(who, "DELETE /keys/{key_id}", path={"key_id": some(w, who, pick, "key")})
        case "model":
            path = {"model_id": "conversational-rag-agent"}
            await w.send(who, "GET /v1/models/{model_id}", path=path)
        case _:
            kind, ref = some(w, who, pick, "entry", ("document", "d1"))
            await w.send(
                who,
                "POST /quarantine/{kind}/{ref}",
                path={"kind": kind, "ref": ref},
                json={"decision": pick.one(("release", "block"))},
                sees="all",
                told=lambda _: True,
            )


def some(w: World, who: Who, pick: Pick, kind: str, other: Any = 1) -> Any:
    found = w.known(who, kind, pick)
    return other if found == "none" else found


async def makes_a_key(w: World, pick: Pick) -> None:
    who = pick.one(w.callers("admin", "gateway"))
    body = {"role": "user", "user_id": pick.one(USERS), "name": "spare"}
    done = await w.send(who, "POST /keys", json=body)
    if done.is_success:
        w.note(who, "key", done.json()["id"])


async def consents(w: World, pick: Pick) -> None:
    who, named = who_asks(w, pick)
    user = named or who.user or "ada"
    path = {"user_id": user}
    if pick.one((True, False)):
        await w.send(who, "GET /users/{user_id}/consent", named=user, path=path)
        return
    may = pick.one((True, True, True, False))
    body = {"memory_enabled": may, "pii_storage_allowed": pick.one((True, False))}
    await w.send(who, "PUT /users/{user_id}/consent", named=user, path=path, json=body)


async def exports(w: World, pick: Pick) -> None:
    who, named = who_asks(w, pick)
    user = named or who.user or "ada"
    done = await w.send(
        who, "GET /users/{user_id}/export", named=user, sees="export", path={"user_id": user}
    )
    if done.is_success:
        w.exports[who.tenant, user] = done.content


async def restores(w: World, pick: Pick) -> None:
    """Restore a user from an export, or try to make another user of it."""
    who = pick.one(w.callers("admin", "gateway"))
    kept = [user for tenant, user in w.exports if tenant == who.tenant]
    if not kept:
        return
    of, into = pick.one(kept), pick.one((None, *USERS))
    body, into = w.exports[who.tenant, of], into or of
    path = {"user_id": into}
    done = await w.send(who, "POST /users/{user_id}/import", named=into, path=path, content=body)
    if done.is_success:
        if into != of:
            raise AssertionError(f"{of}'s export was restored as {into}'s")
        for word in set(WORD.findall(body.decode().lower())):
            came_back(w.texts[word], of)


def came_back(text: Text, user: str) -> None:
    """What a restored export has is the user's again; of documents, its transcripts may tell."""
    text.is_erased = False
    if text.owner is None:
        text.quoted.add(user)


async def erases(w: World, pick: Pick) -> None:
    """Erase a user; everything is searched for what was theirs. Then they begin anew."""
    who, named = who_asks(w, pick)
    user = named or who.user or "ada"
    path = {"user_id": user}
    done = await w.send(who, "DELETE /users/{user_id}", named=user, path=path)
    if not done.is_success:
        return
    told = done.json()
    if not told["verified"]:
        raise AssertionError(f"what is left of {user}: {told}")
    w.erase(who.tenant, user)
    await w.look_everywhere()
    for caller in w.callers("user"):
        if (caller.tenant, caller.user, caller.by_jwt) == (who.tenant, user, False):
            await w.let_in(caller)


async def works(w: World, pick: Pick) -> None:
    """Do all that waits, and what a monitor's pass finds to do."""
    await finish_jobs(w.runtime)
    await w.runtime.monitor.sweep(w.clock())
    await w.look_everywhere()
