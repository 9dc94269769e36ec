"""Where an answer may stand, told by plain signs, in many languages. Touches nothing.

A wrong route loses answers, so a rule decides only what is plain; the rest is hybrid. The patterns
see `MOST_CHARS` at most.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from app.chat.last_answer import is_about_last_answer
from app.chat.recalling import (
    asks_about_user,
    asks_what_is_remembered,
    asks_what_was_decided,
    asks_what_was_said,
    says_more,
    speaks_of_others,
)
from app.chat.signs import plain

Route = Literal["knowledge", "memory", "hybrid", "clarification"]

MOST_CHARS = 240
MOST_PLAIN_WORDS = 7


@dataclass(frozen=True, slots=True)
class Ruled:
    """A route, and the rule that decided it. is_certain: no model has to be asked.

    of_then: the question is about what was said at some time.
    """

    route: Route
    why: str
    is_certain: bool = True
    of_then: bool = False


UNCLEAR = Ruled("hybrid", "unclear", is_certain=False)

_ASKS = re.compile(
    r"[?？؟]|[吗嗎呢]。?$|(?:です|ます|でした|ました)か。?$"
    r"|^\W*(?:please |can you |could you |do you |so |and )?(?:who|whom|whose|what|which|when|where"
    r"|why|how|is|are|was|were|do|does|did|have|has|can|could|tell|show|list|remember|remind"
    r"|define|explain"
    r"|wer|wen|wem|was|wann|wo|wie|warum|welche[rs]?|wessen|worüber|woran|kannst|weißt|erinnerst"
    r"|habe"
    r"|haben|hatte|qui|que|quoi|quand|où|comment|pourquoi|quels?|quelles?|de quoi|est-ce|qu'\w+"
    r"|combien|sais-tu|qué|quién|cuáles?|cuándo|dónde|cómo|cuánto|de qué|recuerdas|te acuerdas|che"
    r"|chi|quale|dove|come|quanto|di cosa|cosa|o que|quem|qual|onde|como|wat|welke|waar|hoe|wanneer"
    r"|waarover|weet|что|кто|где|когда|как|почему|какой|какая|какие|о чем|о чём|помнишь)(?![\w-])"
)

# What a business tells everybody: policies, prices, definitions.
_MINE = re.compile(
    r"(?<!\w)(?:i|i'm|i've|i'd|i'll|me|my|mine|we|we're|us|our|ours|ich|mich|mir|mein\w*|wir|uns"
    r"|unser\w*|je|j'\w+|moi|mon|ma|mes|m'\w+|nous|notre|nos|yo|mí|mi|mis|conmigo|nosotr\w+"
    r"|nuestr\w+|io|mio|mia|miei|mie|noi|nostr\w+|eu|mim|meu|minha|meus|minhas|nós|nosso|nossa|ik"
    r"|mij|mijn|wij|ons|onze|я|меня|мне|мой|моя|мою|моё|мои|моего|моей|мы|нас|нам|наш\w*)(?!\w)"
    r"|私|僕|俺|うち|我|咱"
)
_OTHERS_SAID = re.compile(
    r"\b(?:sa(?:y|id)|told|tell|ask(?:ed)?|remember|recall|mention(?:ed)?|discuss(?:ed)?"
    r"|talk(?:ed)?"
    r"|think|promised?|remind|last|yesterday|gesagt|erzählt|meint|gestern|dit|dis|hier|dijo|dice"
    r"|ayer"
    r"|detto|ieri|disse|ontem|zei|gisteren|сказал\w*|вчера)\b|言|話|昨|先週|说|說|上周"
)
_POLICY = re.compile(
    r"\b(?:polic(?:y|ies)|terms (?:and conditions|of service)|(?:opening|business) hours|price list"
    r"|pricing|warranty|guarantee|shipping (?:costs?|fees?|rates?)"
    r"|delivery (?:times?|costs?|fees?)|return period|cancellation fees?|discount codes?)\b"
    r"|(?:richtlinien?|bedingungen|öffnungszeiten|rückgaberecht|widerrufsrecht|versandkosten"
    r"|lieferzeit(?:en)?|garantie|preisliste|stornogebühr)\b"
    r"|\b(?:politiques?|conditions (?:générales|de vente)|horaires|tarifs?"
    r"|frais de (?:port|livraison)|délais? de \w+)\b"
    r"|\b(?:políticas?|condiciones|horarios?|garantía|gastos de envío"
    r"|plazos? de \w+|tarifas?)\b"
    r"|\b(?:politica|condizioni|orari|garanzia|spese di spedizione|tariffe)\b"
    r"|\b(?:garantia|prazo de \w+|beleid|retourbeleid|voorwaarden|openingstijden"
    r"|verzendkosten|levertijd|политика|условия|гаранти\w+|часы работы)\b"
    r"|ポリシー|規約|営業時間|送料|保証(?:期間)?|料金表?|政策|条款|條款|营业时间|營業時間"
    r"|运费|運費|保修|价格表"
)
_ASKS_PLAINLY = re.compile(
    r"^\W*(?:what|which|how|when|wie|was (?:ist|sind|kostet|gilt)|welche[rs]?|wann|quel\w*"
    r"|comment|combien|quand|cuál\w*|qué"
    r"|cuánto|cómo|cuándo|qual\w*|come|quanto|quando|como|wat|welke|hoe|wanneer|как\w*|сколько"
    r"|когда)(?!\w)"
)
# German writes each noun with a capital, so there a name is not to be told.
_NAME = re.compile(r"(?<=[\w'] )[A-ZÀ-Þ][a-zß-ÿ]|\w['’]s\b(?<!what's)")
_GERMAN = re.compile(r"^\W*(?:wie|was (?:ist|sind|kostet|gilt)|welche[rs]?|wann)\b")
# For whom: a customer, in small letters too.
_FOR = re.compile(r"(?<!\w)(?:for|für|pour|para|per|voor|для)(?!\w)")
_EAST = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_DEFINES = re.compile(
    r"^\W*(?:what (?:is|are) an? [\w '-]{2,40}|what does [\w '-]{1,40} (?:stand for|mean)"
    r"|define [\w '-]{2,40}|was ist eine? [\w '-]{2,40}|was (?:bedeutet"
    r"|heißt) (?!das\b)[\w '-]{2,40}"
    r"|wofür steht [\w '-]{2,30}|qu'est-ce (?:que|qu') ?(?:la |le |l'|les |une? )?"
    r"(?!tu\b|vous\b|il\b|elle\b|je\b|on\b|nous\b)[\w'-]+(?: (?:de|du|des|d') ?[\w'-]+)?"
    r"|c'est quoi (?:la|le|l'|les|une?) ?[\w '-]{2,40}|que (?:signifie|veut dire) [\w '-]{2,40}"
    r"|qué (?:es|son) (?:el|la|los|las|una?) [\w '-]{2,40}|qué significa (?!eso\b)[\w '-]{2,40}"
    r"|cos'è (?:un|una|il|la|l') ?[\w '-]{2,40}|cosa significa [\w '-]{2,40}"
    r"|o que (?:é|significa) [\w '-]{2,40}|wat is een [\w '-]{2,40}"
    r"|wat betekent (?!dat\b)[\w '-]{2,40}|что (?:такое|значит|означает) [\w '-]{2,40})\W*$"
    r"|^[^それこあ]{1,15}とは(?:何|なん)(?:です)?か?\W*$|^什么是[^你我他她它这那]{1,15}$"
    r"|^[^你我他她它这那]{1,15}是什么意思\W*$"
)


def ruled(text: str, *, has_answer: bool) -> Ruled:
    """Return the route that plain signs tell; hybrid where they tell nothing.

    has_answer: an answer of ours stands before it.
    """
    text = text.strip()
    if len(text) > MOST_CHARS:
        return UNCLEAR
    said = plain(text)
    if has_answer and is_about_last_answer(said):
        return Ruled("clarification", "about the last answer")
    if not _ASKS.search(said):
        return UNCLEAR
    if asks_what_was_said(said):
        return _of_memory(said, Ruled("memory", "about what was said", of_then=True))
    if asks_what_is_remembered(said):
        return _of_memory(said, Ruled("memory", "about what is remembered"))
    if asks_about_user(said):
        return _of_memory(said, Ruled("memory", "about the user"))
    if asks_what_was_decided(said):
        return Ruled("hybrid", "about what was decided", is_certain=False, of_then=True)
    if _is_plain_knowledge(text, said):
        return Ruled("knowledge", "about what a business tells everybody")
    return UNCLEAR


def _of_memory(said: str, rule: Ruled) -> Ruled:
    """Return the rule; hybrid where the business may know it too, or more is asked than that."""
    if says_more(said) or speaks_of_others(said) or _POLICY.search(said):
        return replace(rule, route="hybrid", is_certain=False)
    return rule


def is_asking(text: str) -> bool:
    return _ASKS.search(plain(text[:MOST_CHARS])) is not None


def is_of_the_user(text: str) -> bool:
    """Say whether an utterance speaks of who says it."""
    return _MINE.search(plain(text)) is not None


def _is_plain_knowledge(text: str, said: str) -> bool:
    """Say whether nobody in particular is asked about; else memory may hold the answer, too."""
    if _MINE.search(said) or _OTHERS_SAID.search(said) or len(said.split()) > MOST_PLAIN_WORDS:
        return False
    if _DEFINES.search(said):
        return True
    if _POLICY.search(said) is None or _FOR.search(said):
        return False
    if _NAME.search(text) and not _GERMAN.search(said):
        return False
    return bool(_EAST.search(said) or _ASKS_PLAINLY.search(said))
