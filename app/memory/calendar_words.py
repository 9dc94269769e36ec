"""Words that count from the day of a message, in the languages we know some of. Touches nothing.

All of them are folded (no accents, lower case). A language that is missing costs a date, never a
wrong one: what is not read holds from the time of its message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from app.text.words import fold


def _set(words: str) -> frozenset[str]:
    return frozenset(fold(word) for word in words.split())


_UNITS = """
minute: minute minutes min mins minuten minuto minutos minuti минут минуты минуту دقيقة دقائق
hour: hour hours hr hrs stunde stunden heure heures hora horas ora ore uur uren час часа часов ساعة
day: day days tag tage tagen jour jours día días giorno giorni dag dagen день дня дней يوم أيام
week: week weeks woche wochen semaine semaines semana semanas settimana settimane weken
week: неделя недели недель неделе неделю أسبوع أسابيع الأسبوع
month: month months monat monate monaten mois mes meses mese mesi mês maand maanden
month: месяц месяца месяцев месяце شهر شهور أشهر الشهر
year: year years jahr jahre jahren an ans année années año años anno anni ano anos jaar jaren
year: год года лет году سنة سنوات عام أعوام العام السنة
weekend: weekend wochenende
"""
UNITS = {
    fold(word): unit
    for row in _UNITS.strip().splitlines()
    for unit, _, words in [row.partition(": ")]
    for word in words.split()
}
CLOCK_UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
CALENDAR_UNITS = frozenset({"week", "weekend", "month", "year"})

ARTICLES = dict.fromkeys(_set("a an one ein einem einer eine un une una um uma een одну один"), 1)
BETWEEN = _set("of de full whole good ganzen")
AGO_AFTER = _set("ago back geleden fa atrás назад earlier zuvor")
AHEAD_BEFORE = _set("in dans tra fra en dentro через over within بعد")
FOR = _set("for desde da past since")
PAIRS = _set("couple pair paar par dozen")
_AGO_BEFORE = _set("vor hace há seit depuis sinds منذ قبل")
SINCE = _set("since from seit depuis desde dal sinds vanaf с from منذ")


def is_ago(before: Sequence[str]) -> bool:
    """Say whether the words before a number and its unit put it into the past."""
    return bool(before) and (before[-1] in _AGO_BEFORE or list(before[-3:]) == ["il", "y", "a"])


# Only after `last`, `this` or `next`: `sun` and `sat` are words of their own.
SHORT_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        ("mon", "tue tues", "wed weds", "thu thur thurs", "fri", "sat", "sun")
    )
    for name in names.split()
}
LAST = _set(
    "last past previous letzte letzten letzter letztes letztem vorige vorigen voriger voriges "
    "vergangene vergangenen vergangenes dernier dernière passé passée pasado pasada último última "
    "scorso scorsa passato passata passado passada afgelopen verleden "
    "прошлый прошлой прошлую прошлом прошлое прошлые الماضي الماضية"
)
NEXT = _set(
    "next coming upcoming nächste nächsten nächster nächstes nächstem kommende kommenden kommendes "
    "prochain prochaine próximo próxima siguiente viene prossimo prossima volgende volgend komende "
    "следующий следующей следующую следующем القادم القادمة المقبل المقبلة"
)
THIS = _set(
    "this diese diesen dieser dieses diesem cette ce cet este esta questo questa deze dit "
    "этой этот эту этом этого هذا هذه"
)

SHIFTS = {
    **dict.fromkeys(_set("أمس البارحة"), -1),
    **dict.fromkeys(_set("اليوم"), 0),
    **dict.fromkeys(_set("غدا غدًا"), 1),
    **dict.fromkeys(_set("vorgestern avant-hier anteayer anteontem eergisteren позавчера"), -2),
    **dict.fromkeys(_set("übermorgen après-demain dopodomani overmorgen послезавтра"), 2),
}
# The longest first: `the day before yesterday` holds `yesterday`.
PHRASES = tuple(
    (fold(phrase), shift)
    for phrase, shift in (
        ("day before yesterday", -2),
        ("day after tomorrow", 2),
        ("antes de ayer", -2),
        ("pasado mañana", 2),
        ("depois de amanhã", 2),
        ("l'altro ieri", -2),
        ("altro ieri", -2),
        ("avant hier", -2),
        ("أول أمس", -2),
        ("بعد غد", 2),
        ("last night", -1),
        ("letzte nacht", -1),
        ("cette nuit", -1),
        ("esta mañana", 0),
        ("heute morgen", 0),
        ("this morning", 0),
        ("this afternoon", 0),
        ("this evening", 0),
        ("gestern morgen", -1),
    )
)
NO_TIMES = re.compile(r" (?:guten|jeden|am) morgen | la manana | good morning ")
# `hier` is yesterday in French and here in German.
IS_FRENCH = re.compile(r" (?:je|j'\w+|nous|on|il|elle|suis|est|avons|ai|une|des|du|mon|ma|mes) ")

UNTIL = re.compile(
    r"^\W*(?:until|till|til|up to|through|bis(?: zum| zu| ende)?|jusqu'?(?:a|au|en)?|hasta(?: el)?"
    r"|fino (?:a|al)|ate|tot|до|حتى)(?!\w)"
)
# What begins at a time to come, so that the statement is not true before.
STARTS = re.compile(
    r"\b(?:mov(?:e|es|ing)|relocat\w*|start\w*|begin\w*|join\w*|switch\w*|chang\w*|becom\w*|turn\w*"
    r"|from|as of|effective|starting|taking over|leav\w+|quit\w*|retir\w*"
    r"|zieh\w*|umzieh\w*|beginn\w*|anfang\w*|fang\w*|wechsl\w*|ab|werde\w*|wird"
    r"|demenag\w*|commenc\w*|a partir|des|deviens|deviendr\w*"
    r"|mud\w+|empiez\w*|empez\w*|comienz\w*|cambi\w*|inizi\w*|trasfer\w*|comec\w*"
    r"|verhui\w*|begin\w*|vanaf|переез\w*|начин\w*|начн\w*)\b"
    r"|引っ越|から|始|転職|搬|开始|起|انتقل|سأبدأ"
)
CLOCK = re.compile(
    r"(?<![\d:.-])(\d{1,2})[:h](\d\d)(?![\d:])\s?(?:([ap])\.?m\b)?|(?<![\d:.])(\d{1,2})\s?([ap])\.?m\b"
)

_SIGN_UNITS = {
    "day": "日間 日 天 일",
    "week": "週間 週 周 星期 个星期 個星期 주",
    "month": "ヶ月 か月 カ月 ヵ月 个月 個月 개월 달",
    "year": "年間 年 년",
}
SIGN_UNITS = {word: unit for unit, words in _SIGN_UNITS.items() for word in words.split()}
SIGNS_AGO = ("前", "以前", "之前", "전")
_UNIT_SIGNS = "|".join(sorted(SIGN_UNITS, key=len, reverse=True))
SIGN_SPAN = re.compile(
    rf"(\d{{1,3}}|一)\s?({_UNIT_SIGNS})\s?(以前|之前|前|전|以后|之后|以後|之後|后|後|뒤|후)"
)

SIGN_SHIFTS = {
    **dict.fromkeys(("一昨日", "おととい", "前天", "그저께"), -2),
    **dict.fromkeys(("昨日", "昨夜", "昨晩", "きのう", "昨天", "昨晚", "어제"), -1),
    **dict.fromkeys(("今日", "今朝", "今夜", "今天", "今晚", "오늘"), 0),
    **dict.fromkeys(("明日", "あした", "明天", "내일"), 1),
    **dict.fromkeys(("明後日", "あさって", "后天", "後天", "모레"), 2),
}
SIGN_SHIFT = re.compile("|".join(sorted(SIGN_SHIFTS, key=len, reverse=True)))
_PERIODS = {
    (-1, "week"): "先週 上周 上週 上星期 上个星期 上個星期 지난주",
    (0, "week"): "今週 这周 這週 本周 本週 这个星期 이번주",
    (1, "week"): "来週 下周 下週 下星期 下个星期 下個星期 다음주",
    (-1, "month"): "先月 上个月 上個月 지난달",
    (0, "month"): "今月 这个月 這個月 本月 이번달",
    (1, "month"): "来月 下个月 下個月 다음달",
    (-2, "year"): "一昨年 前年",
    (-1, "year"): "去年 昨年 작년",
    (0, "year"): "今年 올해",
    (1, "year"): "来年 明年 내년",
}
SIGN_PERIODS = {word: way for way, words in _PERIODS.items() for word in words.split()}
SIGN_DAYS = {
    sign: number
    for number, signs in enumerate(("月一", "火二", "水三", "木四", "金五", "土六", "日天"))
    for sign in signs
}
SIGN_PERIOD = re.compile(
    rf"({'|'.join(sorted(SIGN_PERIODS, key=len, reverse=True))})"
    "(?:の?([月火水木金土日])曜|([一二三四五六天]|日(?!本)))?"
)
