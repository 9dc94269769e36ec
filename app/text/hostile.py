"""Whether a text reads like instructions to a model. Touches nothing.

A flag is a hint for whoever reviews, and never what keeps a text from harm: that it is data is
held by where it stands in the prompt.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import defaultdict

from app.text import hostile_patterns as p
from app.text.tags import GAP, TAGS, UNSEEN

_UNSEEN = re.compile(f"[{UNSEEN}]+")
_TAG = re.compile(rf"<{GAP}(/?){GAP}({'|'.join(TAGS)})\b")
_ONLY_OURS = frozenset(tag for tag in TAGS if "_" in tag) | {"memories"}

# A pattern is only tried on a text that holds one of its words: most hold none.
_WORDED = (
    (
        "override",
        p.OVERRIDE,
        "ignore disregard forget overr bypass discard dismiss neglect aside follow obey listen "
        "attention everything void cancel obsolete revoked invalid suspended longer prompt direct "
        "instruct this",
    ),
    (
        "override",
        p.OVERRIDE_ABROAD,
        "anweisung instruktion regel vorgabe richtlin befehl consigne instructions règle "
        "directives instrucc istruzioni instruç regole regras órdenes ordens direttive diret "
        "instructies opdrachten aanwijz инструкци указани правил команд instrukc polece zasad "
        "wytyczn talimat yönerge kural 指令 指示 规则 規則 提示 要求 命令 ルール プロンプト",
    ),
    (
        "role",
        p.ROLE,
        "<| [inst] [/inst] <<sys <</sys <system </system assistant human> system "
        "developer # human:",
    ),
    ("tool", p.TOOL, "tool function search_ edit_block remember revise forget invoke"),
    ("exfiltration", p.EXFILTRATION, "http"),
    (
        "prompt_leak",
        p.PROMPT_LEAK,
        "prompt instruction rules guidelines message configuration above anweisung instrucciones "
        "istruzioni instruções промпт инструкц сообщен 系统 提示词 プロンプト",
    ),
    (
        "persona",
        p.PERSONA,
        "now jailb mode restrict rules filter polic limit guideline censor uncensored longer jetzt "
        "nun sofort maintenant désormais ahora ora agora 现在 現在",
    ),
    ("hidden", p.HIDDEN_STYLE, "style"),
)
_TRIED = tuple((name, pattern, tuple(words.split(" "))) for name, pattern, words in _WORDED)


def flags_of(text: str) -> tuple[str, ...]:
    """Return what makes a text suspicious, each by its name; nothing for a plain one.

    override, role, delimiter, tool, exfiltration, prompt_leak, hidden, persona. Linear in its
    length.
    """
    read = _as_read(text)
    holds = read.__contains__
    found = {
        name for name, pattern, words in _TRIED if any(map(holds, words)) and pattern.search(read)
    }
    if "<" in read and _leaves_its_block(read):
        found.add("delimiter")
    if not text.isascii() and p.HIDDEN.search(text):
        found.add("hidden")
    return tuple(sorted(found))


def _as_read(text: str) -> str:
    """Return a text as a model may read it: entities and wide letters plain, in lower case."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    return text.lower()


def _leaves_its_block(read: str) -> bool:
    """Say whether a tag of ours ends that the text did not begin, or one that nobody else has."""
    depth: defaultdict[str, int] = defaultdict(int)
    for slash, tag in _TAG.findall(read):
        depth[tag] += -1 if slash else 1
        if depth[tag] < 0 or tag in _ONLY_OURS:
            return True
    return False
