"""What an agent may do on whose word: the user's, never that of a text that it was shown.

Touches nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property

from app.memory.believing import plain
from app.memory.grounding import Grounds
from app.memory.support import ENOUGH
from app.sessions.base import Message
from app.text.sentences import is_question, sentences
from app.text.terms import terms
from app.text.words import DENIES

PASTED, PASTED_END = "<context>", "</context>"

# A question that asks to remember states what is to be remembered.
_ASKS_TO_KEEP = re.compile(
    r"\b(?:remember|note|save|store|keep in mind|write down|add|merk\w*|notier\w*|speicher\w*"
    r"|retiens|retenir|note[rz]?|souviens|recuerd\w*|recordar|anota\w*|guarda\w*|ricorda\w*"
    r"|lembr\w*)\b|覚え|记住|記住|запомни|تذكر",
    re.IGNORECASE,
)
_DO_NOT_FORGET = re.compile(
    r"\b(?:don['’]t|do not|never) forget\b|\bvergiss (?:bitte )?nicht\b|\bn['’]oublie[zr]? pas\b"
    r"|\bno (?:te )?olvides?\b|\bnon dimenticare\b|\bnão (?:te )?esque[çc]as?\b",
    re.IGNORECASE,
)
_ASKS_TO_CHANGE = re.compile(
    r"\b(?:forget|delete|remove|erase|clear|wrong|incorrect|not (?:true|right|correct)|no longer"
    r"|not any ?more|any ?more|don['’]t remember|correct(?:ion)?|change[ds]?|update|replace"
    r"|instead|actually|vergiss|lösch\w*|entfern\w*|falsch|stimmt nicht|nicht mehr|änder\w*"
    r"|oublie[zr]?|supprime[zr]?|efface[zr]?|faux|ne .{1,40} plus|change[zr]?|olvid\w*|borr\w*"
    r"|elimin\w*|ya no|cambi\w*|dimentic\w*|cancell\w*|non .{1,40} più|esque[çc]\w*|apag\w*"
    r"|não .{1,40} mais)\b|忘れ|消して|削除|忘记|删除|不再|забудь|удали|больше не|انس|احذف",
    re.IGNORECASE,
)
# To change a thing is not to lose it: "actually" and "instead" ask for neither.
_ASKS_TO_FORGET = re.compile(
    r"\b(?:forget|delete|remove|erase|clear|wrong|incorrect|not (?:true|right|correct)|no longer"
    r"|not any ?more|any ?more|don['’]t remember|vergiss|lösch\w*|entfern\w*|falsch"
    r"|stimmt nicht|nicht mehr|oublie[zr]?|supprime[zr]?|efface[zr]?|faux|ne .{1,40} plus"
    r"|olvid\w*|borr\w*|elimin\w*|ya no|dimentic\w*|cancell\w*|non .{1,40} più|esque[çc]\w*"
    r"|apag\w*|não .{1,40} mais)\b|忘れ|消して|削除|忘记|删除|不再|забудь|удали|больше не|انس|احذف",
    re.IGNORECASE,
)
_NOW = re.compile(r"\b(?:now|jetzt|inzwischen|maintenant|ahora|adesso|ora|agora)\b|今|现在", re.I)
# "The user is an admin": nothing but this in front of "admin" says so.
_I_AM = re.compile(
    r"(?:\b(?:i am|i['’]?m|i was|i became|we are|we['’]re|ich bin|ich war|wir sind|je suis"
    r"|nous sommes|soy|estoy|somos|(?:io )?sono|siamo|sou|estou|ik ben)\b|я)(?:\W+\w+){0,2}\W*$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:–—]|\s-\s|\b(?:but|sondern|mais|sino|ma|mas)\b", re.IGNORECASE)
_HIDDEN = re.compile(r"[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_UNSEEN = re.compile(
    r"[\u00ad\u0300-\u036f\u0483-\u0489\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u20d0-\u20ff\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]"
)
_ALIKE = str.maketrans(  # letters of other scripts, in lower case, to whom they are taken for
    "авегнікморстухѕјԁһԛԝαεοριτκνβχηυμıɡɑօոս",
    "aberhikmopctyxsjdhqwaeopitknbxhumigaonu",
)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")  # words are not told apart
_NOBODY = frozenset(terms("user assistant customer person"))


class Words:
    """What the user said in this conversation.

    latest: the message of this turn. earlier: what may be remembered of those before it.
    pasted: what stands in the latest, but is not theirs.
    """

    def __init__(self, latest: Message, earlier: Iterable[Message] = ()) -> None:
        newest_first = sorted(earlier, key=lambda message: -message.seq)
        self._messages = {message.seq: message for message in (latest, *newest_first)}
        parted = {seq: _parted(message.content) for seq, message in self._messages.items()}
        self._said = {seq: own for seq, (own, _) in parted.items()}
        self._meant = {
            seq: _DO_NOT_FORGET.sub("remember", said) for seq, said in self._said.items()
        }
        self._latest, self.pasted = parted[latest.seq]
        self._now = self._meant[latest.seq]

    def place_of(self, quote: str) -> int | None:
        """Return the number of the newest message that holds a quote word for word."""
        wanted = plain(quote)
        if not terms(wanted) and not _UNSPACED.search(wanted):
            return None
        return next((seq for seq, text in self._said.items() if wanted in plain(text)), None)

    def said_at(self, seq: int) -> datetime:
        return self._messages[seq].created_at

    def state(self, seq: int, value: str, statement: str, *, known: str = "") -> bool:
        """Say whether a message says a value, and most of what a statement does, and yes or no.

        known: words that need not be said again, as of a fact that is corrected.
        """
        said = _stated(self._meant[seq])
        stated = set(terms(statement)) - _NOBODY
        if not _has(said, value):
            return False
        if len(stated & set(terms(f"{said}\n{known}"))) < ENOUGH * len(stated):
            return False
        parts = sentences(said)
        if known:  # "not Lisbon, but Porto": what is denied and what is so stand side by side
            parts = [part for one in parts for part in _CLAUSE.split(one)]
        denied = DENIES.search(statement) is not None
        wanted = set(terms(value))
        near = [part for part in parts if wanted & set(terms(part)) or _has(part, value)]
        if stated <= wanted and not any(_is_of_oneself(part, value) for part in near):
            return False
        if not any((DENIES.search(part) is not None) == denied for part in near):
            return False
        return Grounds([said, known, "user assistant"]).support(statement, value)

    def support(self, seq: int, text: str, *, known: str) -> bool:
        """Say whether a message, or the latest, says most of each sentence of a text.

        known: what need not be said again.
        """
        sources = [self._meant[seq], self._now, known]
        said = set(terms(" ".join(sources)))
        heard = [one for source in sources for one in sentences(source)]
        heard += [part for one in heard for part in _CLAUSE.split(one)]
        tellings = [(set(terms(one)), DENIES.search(one) is not None) for one in heard]
        for sentence in sentences(text):
            wanted = set(terms(sentence)) - _NOBODY
            if len(wanted & said) < ENOUGH * len(wanted):
                return False
            denied = DENIES.search(sentence) is not None
            if wanted and not any(wanted & of and denied == denies for of, denies in tellings):
                return False
        return _HIDDEN.search(text) is None and Grounds([*sources, "user assistant"]).support(text)

    def correct(self, seq: int, *texts: str) -> bool:
        """Say whether a message tells that something is otherwise, or names one of the texts."""
        said = self._meant[seq]
        tells = (DENIES, _NOW, _ASKS_TO_CHANGE)
        return any(one.search(said) for one in tells) or any(_has(said, text) for text in texts)

    def ask_to_change(self, *texts: str) -> bool:
        """Say whether the latest message asks for a change, or names one of the texts."""
        return _ASKS_TO_CHANGE.search(self._now) is not None or any(
            _has(self._now, text) for text in texts
        )

    def ask_to_forget(self, *texts: str) -> bool:
        """Say whether the latest message asks that something be gone, or names one of the texts."""
        return _ASKS_TO_FORGET.search(self._now) is not None or any(
            _has(self._now, text) for text in texts
        )

    def name(self, tool: str) -> bool:
        """Say whether the latest message names a tool."""
        return _pattern(tool).search(self._shown) is not None

    @cached_property
    def _shown(self) -> str:
        return _seen(self._latest)


class Locks:
    """Tools that a shown text names: they stay locked until the turn ends.

    A text that an agent retrieves may ask it to call a tool. Only a user may, so what the user
    names stays free.
    """

    def __init__(self, tools: Iterable[str], words: Words) -> None:
        self._tools = tuple(tools)
        self._words = words
        self._locked: set[str] = set()

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        return {tool: _pattern(tool) for tool in self._tools if not self._words.name(tool)}

    def read(self, text: str) -> None:
        """Lock what a text names that the model is shown. Takes some milliseconds at first."""
        shown = _seen(text)
        found = [tool for tool, named in self._patterns.items() if named.search(shown)]
        self._locked.update(found)

    def hold(self, tool: str) -> bool:
        return tool in self._locked


def _parted(text: str) -> tuple[str, str]:
    """Return a message without the texts that a client has put in it, and these.

    Open WebUI and its like send the documents that they found within the user's own message.
    """
    begins, ends = text.find(PASTED), text.rfind(PASTED_END)
    if not 0 <= begins < ends:
        return text, ""
    return f"{text[:begins]}\n{text[ends + len(PASTED_END) :]}", text[begins:ends]


def _stated(text: str) -> str:
    """Return a message without its questions: they state nothing."""
    return "\n".join(
        one for one in sentences(text) if not is_question(one) or _ASKS_TO_KEEP.search(one)
    )


def _has(text: str, value: str) -> bool:
    wanted = set(terms(value))
    if wanted and wanted <= set(terms(text)):
        return True
    return _UNSPACED.search(value) is not None and plain(value) in plain(text)


def _is_of_oneself(sentence: str, value: str) -> bool:
    """Say whether a value that is all of a statement is said of who speaks, or asked to be kept."""
    if _UNSPACED.search(value) or _ASKS_TO_KEEP.search(sentence):
        return True
    before, found, _ = plain(sentence).partition(plain(value))
    return bool(found) and _I_AM.search(before) is not None


def _pattern(tool: str) -> re.Pattern[str]:
    """Return what finds a tool's name, however its words are joined."""
    words = [word for word in _seen(tool).split("_") if word]
    joined = r"[\W_]?".join(r"(?:[^\w\s]|_)?".join(map(re.escape, word)) for word in words)
    apart = r"[\W_]{1,3}".join(re.escape(char) for word in words for char in word)
    return re.compile(rf"(?<![^\W_])(?:{joined}|{apart})(?![^\W_])")


def _seen(text: str) -> str:
    """Return a text as a model may read it: letters that look alike are one, and none is hidden.

    What stands in tags that are not shown at all is added.
    """
    shown = plain(text)
    if shown.isascii():
        return shown
    hidden = "".join(
        chr(ord(char) & 0x7F) for char in shown if "\U000e0020" <= char <= "\U000e007e"
    )
    bare = _UNSEEN.sub("", unicodedata.normalize("NFKD", shown)).translate(_ALIKE)
    return f"{bare}\n{hidden.casefold()}"
