"""Words that tell where a sentence ends, and those too common to tell anything. Touches nothing.

A language that is missing costs rank, not correctness.
"""

from __future__ import annotations

import re
import unicodedata


def fold(text: str) -> str:
    """Return the text without case and accents: `Zoë` and `ZOE` become `zoe`."""
    if text.isascii():
        return text.lower()
    return "".join(
        c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)
    ).casefold()


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# A full stop after one of these ends no sentence, whatever follows.
NEVER_LAST = _set(
    "mr mrs ms dr prof st gen sen rep lt col sgt rev hon mme mlle sr sra srta hr fr vs e.g i.e eg "
    "cf approx z.b d.h u.a p.ej p.ex bzw evtl ggf inkl zzgl bspw т.е"
)
# A full stop after one of these may end a sentence.
ABBREVIATIONS = NEVER_LAST | _set(
    "no etc inc ltd co corp fig dept jr ca nr str usw av ave mt incl excl tel ext "
    "u.s a.m p.m т.д г ул jan feb mar apr jun jul aug sep sept oct nov dec okt dez"
)
# German nouns that follow an ordinal: `im 3. Quartal`.
AFTER_ORDINAL = _set(
    "quartal halbjahr stock etage klasse tag woche mal platz kapitel jahr jahrhundert"
)

# One line a month: full names (which may stand alone), then abbreviations (only beside a number).
_MONTHS = """
january januar janvier enero gennaio janeiro januari январь января يناير | jan jän janv ene gen
february februar février febrero febbraio fevereiro februari февраль февраля فبراير | feb févr fev
march märz mars marzo março maart март марта марте مارس | mar mär mrz
april avril abril aprile апрель апреля апреле أبريل | apr avr abr
may mai mayo maggio maio mei май мая мае مايو |
june juni juin junio giugno junho июнь июня июне يونيو | jun giu
july juli juillet julio luglio julho июль июля июле يوليو | jul juil lug
august août agosto augustus август августа августе أغسطس | aug ago
september septembre septiembre settembre setembro сентябрь сентября сентябре سبتمبر | sep sept
october oktober octobre octubre ottobre outubro октябрь октября октябре أكتوبر | oct okt ott
november novembre noviembre novembro ноябрь ноября ноябре نوفمبر | nov
december dezember décembre diciembre dicembre dezembro декабрь декабря ديسمبر | dec dez déc dic
"""
_MONTH_ROWS = [row.split("|") for row in _MONTHS.strip().splitlines()]
MONTH_NAMES = [name for row in _MONTH_ROWS for name in row[0].split()]
MONTH_WORDS = [name for row in _MONTH_ROWS for part in row for name in part.split()]
MONTHS = {
    fold(name): number
    for number, row in enumerate(_MONTH_ROWS, start=1)
    for part in row
    for name in part.split()
}

# Too common to tell anything: English, German, Romance languages and Dutch, the rest.
STOP = (
    _set(
        "a an the and or but if then than so of in on at to for from by with about as into over "
        "under is are was were be been being am do does did done have has had having can could "
        "will would shall should may might must i you he she it we they me him her us them my your "
        "his its our their mine yours this that these those there here what which who whom whose "
        "when where why how not no yes please any some all also just very too much many more most "
        "other another up out again get got let s t re ve ll d m im ive id dont doesnt didnt isnt "
        "arent whats"
    )
    | _set(
        "der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als so "
        "von im an auf zu zum zur für aus bei mit über ist sind war waren sein bin bist hat haben "
        "hatte kann können wird werden ich du er sie es wir ihr mich mir dich dir uns euch mein "
        "meine meinen meinem meiner dein deine ihre unser was welche welcher welches wer wen wem "
        "wann wo warum wie nicht nein ja bitte auch nur sehr noch sich"
    )
    | _set(
        "le la les un une et ou mais si de du au aux en dans sur pour par avec est sont était "
        "être ai avons avez ont je tu il elle nous vous ils elles mon ma mes ton ta tes son sa "
        "ses notre votre leur ce cette ces que qui quoi quel quelle quels quelles quand où "
        "comment pourquoi ne pas oui non se el los las una unos unas y o pero del al por para "
        "con era ser soy eres yo tú él ella nosotros mi mis tus su sus nuestro este esta estos "
        "qué quién cuál cuándo dónde cómo cuánto sí lo gli uno e ed di da nel per sono sei è io "
        "lui lei noi voi loro mio mia che chi quale quando dove come perché os um uma em na nos "
        "nas dos das com são eu ele ela nós meu minha seu sua quem onde het een of maar van op "
        "voor met zijn ik jij hij zij wij mijn jouw wat welke wie wanneer waar waarom hoe niet"
    )
    | _set(
        "и в на не что кто где когда как я ты он она мы вы они мой моя это с по для из у "
        "في من على إلى عن هل ما متى أين كيف لماذا كم هو هي أنا أنت هذا هذه التي الذي و أن "
        "什么 怎么 多少 我们 你们 他们 这个 那个 是的 哪里 谁是 何時 何処 何故 質問"
    )
)

DENIES = re.compile(
    r"n['’]t\b|\b(?:not|no|never|without|dont|nicht|nie|kein\w*|ne|pas|jamais|nunca|non|não|niet)\b"
    r"|ない|ません|不|没|لا|ليس",
    re.IGNORECASE,
)
