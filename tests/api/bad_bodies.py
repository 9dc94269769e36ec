"""What no route may take: tables of bad bodies and paths, with how each is refused."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

from tests.api.calls import Json

HALF = "\ud800"  # half a surrogate pair, which no UTF-8 can hold


def _deep(levels: int) -> Json:
    found: Json = {"a": 1}
    for _ in range(levels):
        found = {"$and": [found]}
    return found


# what is posted to /chat, the status, the code, and the param that is named
CHATS: dict[str, tuple[Any, int, str, str | None]] = {
    "blank": ({"message": ""}, 422, "invalid_request", "message"),
    "white space": ({"message": " \n\t\u2003"}, 422, "invalid_request", "message"),
    "oversized": ({"message": "x" * 1001}, 413, "too_large", "message"),
    "no message": ({"session_id": "s1"}, 422, "invalid_request", "message"),
    "null": ({"message": None}, 422, "invalid_request", "message"),
    "a number": ({"message": 5}, 422, "invalid_request", "message"),
    "a list": ({"message": ["hi"]}, 422, "invalid_request", "message"),
    "unknown field": ({"message": "hi", "sesion_id": "s1"}, 422, "invalid_request", "sesion_id"),
    "odd unknown field": ({"message": "hi", HALF: 1}, 422, "invalid_request", None),
    "stream": ({"message": "hi", "stream": "perhaps"}, 422, "invalid_request", "stream"),
    "memory": ({"message": "hi", "memory": "sometimes"}, 422, "invalid_request", "memory"),
    "top_k below": ({"message": "hi", "top_k": -1}, 422, "invalid_request", "top_k"),
    "top_k above": ({"message": "hi", "top_k": 101}, 422, "invalid_request", "top_k"),
    "top_k huge": ({"message": "hi", "top_k": 10**30}, 422, "invalid_request", "top_k"),
    "top_k half": ({"message": "hi", "top_k": 1.5}, 422, "invalid_request", "top_k"),
    "top_k nan": ({"message": "hi", "top_k": float("nan")}, 422, "invalid_request", "top_k"),
    "array": ([], 422, "invalid_request", None),
    "string": ("hi", 422, "invalid_request", None),
    "nothing": (b"", 422, "invalid_request", None),
    "not JSON": (b'{"message": hi}', 422, "invalid_request", None),
    "cut off": (b'{"message": "hi"', 422, "invalid_request", None),
    "invalid UTF-8": (b'{"message": "\xff\xfe"}', 400, "bad_request", None),
    "very deep": (b'{"message":' + b"[" * 50_000, 400, "bad_request", None),
    "very long number": (b'{"message":' + b"9" * 5_000 + b"}", 400, "bad_request", None),
}
for _field in ("session_id", "user_id", "client_message_id"):
    for _name, _id in {
        "empty": "",
        "blank": "  ",
        "NUL": "a\x00b",
        "control": "a\x1bb",
        "newline": "a\nb",
        "half": HALF,
        "too long": "x" * 513,
        "too many bytes": "é" * 257,
        "number": 5,
    }.items():
        CHATS[f"{_field} {_name}"] = (
            {"message": "hi", _field: _id},
            422,
            "invalid_request",
            _field,
        )
for _name, _text in {"NUL": "a\x00b", "half": f"a{HALF}b", "low half": "\udfff"}.items():
    CHATS[f"message {_name}"] = ({"message": _text}, 422, "invalid_request", "message")
    for _place, _filter in {
        "key": {_text: "x"},
        "value": {"a": _text},
        "list": {"a": {"$in": ["x", _text]}},
        "part": {"$or": [{"a": 1}, {"b": {"$eq": _text}}]},
    }.items():
        CHATS[f"filter {_place} {_name}"] = (
            {"message": "hi", "filters": _filter},
            422,
            "invalid_request",
            "filters",
        )
for _name, _wrong in {
    "list": [],
    "string": "a",
    "number": 1,
}.items():
    CHATS[f"filters a {_name}"] = (
        {"message": "hi", "filters": _wrong},
        422,
        "invalid_request",
        "filters",
    )
for _name, _bad in {
    "unknown operator": {"a": {"$like": "x"}},
    "operator as field": {"$not": {"a": 1}},
    "empty condition": {"a": {}},
    "empty and": {"$and": []},
    "and of no object": {"$and": [1]},
    "empty part": {"$or": [{}]},
    "null": {"a": None},
    "list": {"a": [1, 2]},
    "empty in": {"a": {"$in": []}},
    "in of objects": {"a": {"$in": [{}]}},
    "gt of a string": {"a": {"$gt": "x"}},
    "gt of true": {"a": {"$gt": True}},
    "exists of a string": {"a": {"$exists": "yes"}},
    "nan": {"a": float("nan")},
    "infinite": {"a": {"$lt": float("inf")}},
    "beyond floats": {"a": 10**400},
    "empty field": {"": 1},
    "too deep": _deep(17),
    "far too deep": _deep(200),
    "too many": {f"k{n}": n for n in range(1001)},
}.items():
    CHATS[f"filter {_name}"] = ({"message": "hi", "filters": _bad}, 422, "invalid_filter", None)

DOCUMENTS: dict[str, tuple[Any, int, str, str | None]] = {
    "none": ({"documents": []}, 422, "invalid_request", "documents"),
    "too many": ({"documents": [{"text": "x"}] * 1001}, 422, "invalid_request", "documents"),
    "no list": ({"documents": {"text": "x"}}, 422, "invalid_request", "documents"),
    "missing": ({}, 422, "invalid_request", "documents"),
    "unknown": ({"documents": [{"text": "x"}], "upsert": 1}, 422, "invalid_request", "upsert"),
    "invalid UTF-8": (b'{"documents": [{"text": "\xc3\x28"}]}', 400, "bad_request", None),
}
for _name, _document, _param in (
    ("blank", {"text": "  "}, "text"),
    ("no text", {"id": "d"}, "text"),
    ("text too long", {"text": "x" * 500_001}, "text"),
    ("NUL", {"text": "a\x00"}, "text"),
    ("half", {"text": HALF}, "text"),
    ("unknown", {"text": "x", "title": "y"}, "title"),
    ("empty id", {"text": "x", "id": ""}, "id"),
    ("id with NUL", {"text": "x", "id": "\x00"}, "id"),
    ("id with half", {"text": "x", "id": HALF}, "id"),
    ("id too long", {"text": "x", "id": "i" * 513}, "id"),
    ("id of too many bytes", {"text": "x", "id": "語" * 171}, "id"),
    ("source with control", {"text": "x", "source": "\x07"}, "source"),
    ("source with half", {"text": "x", "source": HALF}, "source"),
    ("type with NUL", {"text": "x", "doc_type": "\x00"}, "doc_type"),
    ("metadata a list", {"text": "x", "metadata": []}, "metadata"),
    ("nested", {"text": "x", "metadata": {"a": {"b": 1}}}, "metadata.a"),
    ("list of numbers", {"text": "x", "metadata": {"a": [1]}}, "metadata.a"),
    ("list of lists", {"text": "x", "metadata": {"a": [["b"]]}}, "metadata.a"),
    ("metadata NUL", {"text": "x", "metadata": {"a": "\x00"}}, "metadata"),
    ("metadata NUL in a list", {"text": "x", "metadata": {"a": ["\x00"]}}, "metadata"),
    ("metadata NUL in a key", {"text": "x", "metadata": {"\x00": "a"}}, "metadata"),
    ("metadata half", {"text": "x", "metadata": {"a": HALF}}, "metadata"),
    ("metadata half in a list", {"text": "x", "metadata": {"a": [HALF]}}, "metadata"),
    ("metadata half in a key", {"text": "x", "metadata": {HALF: "a"}}, "metadata"),
):
    DOCUMENTS[_name] = (
        {"documents": [{"text": "a good one"}, _document]},
        422,
        "invalid_request",
        f"documents.1.{_param}",
    )
for _name, _metadata in {
    "nan": {"a": float("nan")},
    "infinity": {"a": float("-inf")},
    "beyond 2**53": {"a": 2**53 + 1},
    "beyond floats": {"a": 10**400},
    "too large": {"a": "x" * 41_000},
    "too large in all": {f"k{n}": "x" * 30 for n in range(1_200)},
    "operator": {"$eq": "a"},
    "empty key": {"": "a"},
}.items():
    DOCUMENTS[f"metadata {_name}"] = (
        {"documents": [{"text": "a good one"}, {"text": "x", "metadata": _metadata}]},
        422,
        "invalid_request",
        None,
    )


def _cursor(moment: str, session_id: str) -> str:
    """Return the path of the page of sessions after this one."""
    last = json.dumps([moment, session_id]).encode()
    return f"/sessions?cursor={urlsafe_b64encode(last).decode()}"


PATHS: list[tuple[str, str, int, str | None]] = [
    ("GET", "/sessions?limit=0", 422, "limit"),
    ("GET", "/sessions?limit=501", 422, "limit"),
    ("GET", "/sessions?limit=ten", 422, "limit"),
    ("GET", "/sessions?cursor=yesterday", 422, "cursor"),
    ("GET", "/sessions?cursor=WzEsMl0=", 422, "cursor"),
    ("GET", _cursor("0001-01-01T00:00:00+14:00", "x"), 422, "cursor"),
    ("GET", _cursor("9999-12-31T23:59:59-14:00", "x"), 422, "cursor"),
    ("GET", _cursor("2026-01-01T00:00:00", "x"), 422, "cursor"),
    ("GET", _cursor("2026-01-01T00:00:00Z", "a\x00"), 422, "cursor"),
    ("GET", _cursor("2026-01-01T00:00:00Z", HALF), 422, "cursor"),
    ("GET", "/sessions?user_id=", 422, "user_id"),
    ("GET", "/sessions?user_id=%00", 422, "user_id"),
    ("GET", "/sessions/s1?after_seq=-1", 422, "after_seq"),
    ("GET", f"/sessions/s1?after_seq={10**30}", 422, "after_seq"),
    ("GET", "/sessions/s1?limit=1001", 422, "limit"),
    ("GET", "/sessions/", 422, "session_id"),
    ("GET", "/sessions/a%00b", 422, "session_id"),
    ("GET", "/sessions/a%0Ab", 404, None),
    ("GET", f"/sessions/{'x' * 513}", 422, "session_id"),
    ("GET", "/sessions/%ED%A0%80", 404, "session_id"),
    ("GET", "/sessions/%FF", 404, "session_id"),
    ("DELETE", "/sessions/nope", 404, "session_id"),
    ("POST", "/sessions/nope/close", 404, "session_id"),
    ("GET", "/memories?query=", 422, "query"),
    ("GET", "/memories?query=%20", 422, "query"),
    ("GET", "/memories?query=a%00", 422, "query"),
    ("GET", "/memories?top_k=0", 422, "top_k"),
    ("GET", "/memories?top_k=101", 422, "top_k"),
    ("GET", "/memories?query=a&min_score=nan", 422, "min_score"),
    ("GET", "/memories?query=a&min_score=2", 422, "min_score"),
    ("DELETE", "/memories/nope", 404, "memory_id"),
    ("DELETE", "/memories/a%2500", 404, "memory_id"),
    ("DELETE", f"/memories/sha256-{'0' * 64}", 404, "memory_id"),
    ("GET", "/messages/nope/receipt", 404, "message_id"),
    ("GET", "/documents?limit=0", 422, "limit"),
    ("GET", "/documents?after=", 422, "after"),
    ("GET", "/documents?source=%00", 422, "source"),
    ("GET", "/documents/nope", 404, "document_id"),
    ("DELETE", "/documents/nope", 404, "document_id"),
    ("DELETE", "/documents", 422, "source"),
    ("DELETE", "/documents?source=", 422, "source"),
    ("GET", "/nope", 404, None),
    ("GET", "/", 404, None),
    ("GET", "/messages/nope", 404, None),
    ("PUT", "/chat", 405, None),
    ("GET", "/chat", 405, None),
    ("PUT", "/sessions/s1", 405, None),
    ("GET", "/sessions?state=gone", 422, "state"),
    ("GET", "/sessions//export", 422, "session_id"),
    ("GET", "/sessions/nope/export", 404, "session_id"),
    ("GET", "/sessions/nope/export?format=pdf", 422, "format"),
    ("POST", "/sessions/nope/reopen", 404, "session_id"),
    ("GET", "/memories/blocks/human", 404, "label"),
    ("GET", "/memories/blocks/mood", 422, "label"),
    ("POST", "/stats", 405, None),
]
