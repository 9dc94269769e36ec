"""What all contestants are told and asked. Touches nothing."""

from __future__ import annotations

from tests.benchmarks.peers.stub import REPLY

Turn = dict[str, str]

_TOLD = (
    ("My favourite dish is bacalhau", "what should we book for the dinner with the suppliers"),
    ("My sister is Ingrid", "she may join us at the trade fair if the train is not full"),
    ("My office is in the old customs house", "the parcels should go to the back door there"),
    ("My accountant is Mr Okafor", "please send the invoice of the second quarter to him first"),
    ("My budget is 5,400 euros", "the offer for the plant must not be above that this time"),
    ("My deadline is the ninth of June", "everything has to be signed a week before it"),
    ("My car is a green van", "the boxes with the samples fit in if the seats are folded"),
    ("My allergy is peanuts", "the caterer has to know before we order anything for the day"),
    ("My language is Dutch", "the second page of the contract should be in it too"),
    ("My supplier is Harbour Lamps", "they deliver on Tuesdays and only against a purchase order"),
)
_THINGS = (
    "lamp", "desk", "crate", "engine", "ladder", "mirror", "basket", "kettle", "carpet", "window",
)  # fmt: skip
_PLACES = (
    "Ghent", "Porto", "Lyon", "Bergen", "Turin", "Bremen", "Gdansk", "Leeds", "Cork", "Graz",
)  # fmt: skip


def conversation(user: str) -> list[Turn]:
    """Return ten turns of a user, in one session; no other user says any of them."""
    return [
        turn(user, f"{user}-chat", f"Hello, {user} again. {fact} {user}. By the way, {rest}.")
        for fact, rest in _TOLD
    ]


def turn(user: str, session: str, message: str) -> Turn:
    return {"user": user, "session": session, "message": message, "reply": REPLY}


def memories(count: int) -> list[str]:
    """Return so many sentences; each has a number of its own."""
    return [
        f"The user keeps {_THINGS[n % 10]} number {n} of the {_PLACES[n // 10 % 10]} order in "
        f"shelf {n * 7 % 89}, and wants it sent to {_PLACES[n * 3 % 10]} by week {n % 52 + 1}."
        for n in range(count)
    ]


def question(number: int) -> str:
    """Return what asks for one of `memories`."""
    return f"Where does the user keep {_THINGS[number % 10]} number {number}?"


def is_answer(number: int, text: str) -> bool:
    return f" number {number} " in text
