"""What people say of themselves in some languages other than English. Touches nothing.

The sentence itself is the statement.
"""

from __future__ import annotations

from app.llm.offline.patterns import END, NAME, PLACE, SIGNS, THING, Pattern, spoken


def _name(pattern: str) -> Pattern:
    return Pattern(spoken(pattern), "name", "")


def _home(pattern: str) -> Pattern:
    return Pattern(spoken(pattern), "lives_in", "", entity="place")


def _work(pattern: str) -> Pattern:
    return Pattern(spoken(pattern), "works_at", "", entity="organization")


def _allergy(pattern: str) -> Pattern:
    return Pattern(spoken(pattern), "allergic_to", "", many=True)


_NICHT = r"(?:(?!nicht\b|nie\b|niemals\b|kaum\b|bald\b|demnächst\b|früher\b)\w+ )"
_NO = r"(?<![Nn]o )(?<![Nn]unca )(?<![Tt]ampoco )(?<![Ee]n )"
_WATASHI = r"(?:^|(?<=[、。]))(?:(?:私|僕|俺|わたし)は、?)?(?:今は|今)?"
# Not `東京に住んでいる友達`, which speaks of a friend.
_SAID = r"(?=[。、！!\s」]|$|けど|から|ので|が|よ|ね)"

OTHERS = (
    _name(rf"(?:[Ii]ch heiße|[Mm]ein Name ist) {NAME}"),
    _home(rf"(?:[Ii]ch|und) (?:wohne|lebe) {_NICHT}?in {PLACE}"),
    _home(rf"[Ii]ch bin {_NICHT}{{0,2}}nach {PLACE} (?:um)?gezogen"),
    _work(rf"(?:[Ii]ch|und) arbeite {_NICHT}?(?:bei|für) (?:der |dem |die )?{NAME}"),
    _allergy(rf"[Ii]ch bin {_NICHT}?allergisch gegen {THING}{END}"),
    _name(rf"{_NO}(?:[Mm]e llamo|[Mm]i nombre es) {NAME}"),
    _home(rf"{_NO}(?:[Yy]o )?[Vv]ivo en {PLACE}"),
    _home(rf"{_NO}[Mm]e (?:he mudado|mudé) a {PLACE}"),
    _work(rf"{_NO}(?:[Yy]o )?[Tt]rabajo (?:en|para) {NAME}"),
    _allergy(rf"{_NO}[Ss]oy alérgic[oa] (?:al|a la|a los|a las|a) {THING}{END}"),
    _name(rf"(?:[Jj]e m['’]appelle|[Mm]on nom est) {NAME}"),
    _home(rf"(?:[Jj]['’]habite|[Jj]e vis) (?:à|en|au|aux) {PLACE}"),
    _home(rf"[Jj]['’]ai déménagé (?:à|en|au) {PLACE}"),
    _work(rf"[Jj]e travaille (?:chez|pour) {NAME}"),
    _allergy(rf"[Jj]e suis allergique (?:aux|au|à la|à l['’]|à) ?{THING}{END}"),
    _name(rf"(?:私|僕|俺|わたし)の名前は{SIGNS}(?:です|と(?:いい|申し)ます)"),
    _home(rf"{_WATASHI}{SIGNS}に(?:住んで(?:いる|います|る)|引っ越し(?:た|ました)){_SAID}"),
    _work(rf"{_WATASHI}{SIGNS}で働いて(?:いる|います|る){_SAID}"),
    _allergy(rf"{_WATASHI}{SIGNS}アレルギー(?:があります|がある|です|なの|持ち)"),
    Pattern(
        spoken(rf"{_WATASHI}{SIGNS}が(?:大)?好き(?:です|だ(?!った)|$|。)"),
        "likes",
        "",
        "preference",
        many=True,
    ),
)
