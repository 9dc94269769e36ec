"""Signs that an utterance depends on what was said before it, in many languages. Touches nothing.

A sign too many costs one call of the small model, a sign too few an answer: in doubt it is one.
The patterns see `MOST_CHARS` at most, for what is longer says what it is about.
"""

from __future__ import annotations

import re
import unicodedata

MOST_CHARS = 240
MOST_ECHO_WORDS = 9  # of what begins with an "and …"
MOST_SHORT_WORDS = 3
MOST_SIGNS = 4  # of Japanese or Chinese
MOST_REPLY_WORDS = 5

_POLITE_YOU = re.compile(r"(?<=[\w,] )(?:Sie|Ihnen|Ihr(?:e[nmrs]?)?)\b")  # German: "you"
_EAST = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_FILLERS = (
    "ok|okay|so|well|hm+|also|gut|na|bon|alors|bueno|entonces|allora|bene|então|dus|oké|ну|хорошо"
)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w'-])(?:{'|'.join(alternatives)})(?![\w-])")


def _begins(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"^\W*(?:(?:{_FILLERS})\W+)?(?:{'|'.join(alternatives)})(?![\w-])")


_TIMES = (
    r"(?:weeks?|months?|years?|morning|afternoon|evening|night|weekend|time|summer|winter|spring"
    r"|autumn|fall|quarter|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
)
_ZEIT = (
    r"(?:woche|monat|jahr|wochenende|morgen|abend|nacht|mal|sommer|winter|quartal|montag|dienstag"
    r"|mittwoch|donnerstag|freitag|samstag|sonntag|tage?)"
)
_TEMPS = r"(?:semaine|mois|année|matin|soir|nuit|week-end|après-midi|été|hiver|fois)"
_TIEMPO = (
    r"(?:semana|mes|año|mañana|noche|tarde|fin|vez|verano|invierno|mês|ano|noite|manhã|vez|lunes"
    r"|martes|miércoles|jueves|viernes|sábado|domingo)"
)
_TEMPO = r"(?:settimana|mese|anno|mattina|sera|notte|pomeriggio|volta|estate|inverno|weekend)"
_TIJD = r"(?:week|maand|jaar|weekend|ochtend|avond|middag|nacht|keer|zomer|winter)"
_VREMYA = r"(?:недел\w*|месяц\w*|год\w*|утр\w*|вечер\w*|ноч\w*|раз\w*)"

# What stands before a demonstrative that means something said before.
_EN_BEFORE = (
    r"(?:about|of|for|with|to|in|on|at|from|like|than|by|is|are|was|were|do|does|did|can|could"
    r"|will|would|has|have|should|and|how|why|when|where|who|what|much|many|use|get|see|buy|need)"
)

_PRONOUN = _words(
    r"it(?!'?s? (?:rain|snow|true|possible|normal|ok|okay|legal|safe|worth|necessary|necessarily"
    r"|better|cold|hot|warm|dark|take to)\w*)(?:'s|'ll|'d)?",
    r"its|itself|he|she|him|his|hers?|they|them|theirs?|he's|she's|they're|they've",
    # German
    r"er|ihn|ihm|(?<!qué )(?<!quién )(?<!cuál )es(?! (?:gibt|regnet|schneit|el|la|un|una|de"
    r"|mi)\b)|sie|deren|dessen|seine[nmrs]?|ihre[nmrs]?",
    r"da(?:von|mit|zu|für|rüber|ran|rin|rauf|bei|gegen|raus|nach)|dort|dorthin",
    # French
    r"lui|leurs?|ça|cela|ceci|celui(?:-ci|-là)?|celles?(?:-ci|-là)?|ceux(?:-ci|-là)?",
    r"là-bas|qu'en|son(?= \w+ ?\?)|sa|ses",
    # Spanish and Portuguese
    r"él|ella|ellos|ellas|(?:quién|cómo|cuándo|dónde|qué|ya|no) (?:lo|les?|la|los|las)|eso|esto"
    r"|aquello",
    r"allí|allá|ahí|sus?|ele|elas?|eles|d[ao]quele|del[ea]s?|nel[ea]s?|isso|isto|aquilo|disso",
    r"nisso|ali|lá",
    # Italian
    r"lui|loro|ess[oaie]|suo[i]?|sue|ciò|questo(?= \?|$)|lì",
    # Dutch
    r"hij|hem|haar|hun|daar(?:van|over|mee|voor|bij)?|er(?:van|over|mee|voor|bij)",
    r"zij(?= )|ze(?= )|het(?= ?(?:\?|$|ook|nog))",
    # Russian
    r"он[аои]?|его|её|ее|их|ему|ей|им|н[её]м|нему|них|ними|неё|нее|ней|этого|этом|там|туда|оттуда",
)
_EXPLETIVE = re.compile(
    r"\b(?:gibt|regnet|schneit|geht|spät ist|wie geht) es\b|\bes (?:möglich|erlaubt|gut)\b"
    r"|\b(?:fait|pleut|faut|neige|a-t|s'agit|heure est|est)-il\b(?! \w+é\b)|\bs'il\b|\bil (?:y a"
    r"|faut|fait|pleut|neige|s'agit|est (?:possible|nécessaire|vrai))\b"
    r"|\b(?:what time|how late|how far) is it\b|\bis it (?:raining|snowing|ok|okay|possible|legal"
    r"|true)\b"
    r"|\bif it (?:rains|snows|is possible)\b|\bhow(?:'s| is) it going\b|\bmake it (?:to|at)\b"
    r"|\bis there\b|\bare there\b|\bthere (?:is|are)\b|\bon y va\b|\bpor lo (?:menos|general)\b"
)
_ILS = re.compile(
    r"(?<!\w)(?:elles?|ils)\b|(?:qu'|-)il\b|(?:^\W*|où |quand |comment |combien )il\b"
)
_THERE = re.compile(
    r"\b(?:works?|lives?|sits?|stays?|eats?|get|go|from|is|are|over) there\b|\bthere(?=\s*\?)"
)
_DEMONSTRATIVE = re.compile(
    rf"\b{_EN_BEFORE} (?:that|this|these|those)\b(?! (?:{_TIMES}|i|we|you|he|she|they|it|the|a"
    rf"|an)\b)"
    rf"|^\W*(?:that|this|these|those)\b(?! {_TIMES}\b)"
    rf"|\b(?:these|those) (?!{_TIMES}|who\b)\w+|\bthat(?= ?\?|$)"
    rf"|\b(?:diese[rsmn]?|jene[rsmn]?|solche[rsmn]?)\b(?! {_ZEIT})|\bdies\b"
    r"|\bdas(?=\s*[?!.]|$)|^\W*das (?:ist|war|kostet|geht|heißt|bedeutet|hat|wäre|klingt)\b"
    r"|\b(?:ist|war|kostet|geht|heißt|bedeutet|kann|macht|für|mit|über|wie|was|warum|man) das"
    r"(?= (?:auch|denn|noch|genau|bitte|so|eigentlich|alles|für|in|mit|bei|nicht|gemacht"
    r"|möglich)\b)"
    rf"|\b(?:ce|cet|cette|ces) (?!{_TEMPS}\b|que\b|qui\b|n'|sont\b|était\b|dont\b)\w+"
    r"|\bc'(?:est|était) (?:combien|quand|où|pourquoi|possible|cher|loin|gratuit|ouvert)\b"
    rf"|\b(?:es[ae]s?|est[ea]s?|estos|esos|aquel\w*|dess[ea]s?|ness[ea]s?"
    rf"|dest[ea]s?) (?!{_TIEMPO}\b)"
    r"(?!(?:el|la|los|las|un|una|o|a|os|as|um|uma)\b)\w+"
    rf"|\b(?:quest[oaie]|quell[oai]|(?:di|in|per|a|da|con) quel)\b(?! {_TEMPO}\b)"
    rf"|\bdeze (?!{_TIJD}\b)\w+|\b(?:is|kost|van|voor|met|over|hoe|waarom) (?:dit"
    rf"|dat)\b(?! {_TIJD})|\bdie (?:ook|kost|is|was|nog)\b"
    rf"|\b(?:эт(?:от|а|и|у|ой|ому|ими)|т(?:от|ой|ому))\b(?! {_VREMYA})|^\W*это\b|\bэто\b(?= |\?|$)"
)
_ORDINAL = re.compile(
    r"\b(?:first|second|third|fourth|last|other|former|latter|next|previous|same|cheaper|cheapest"
    r"|bigger|newer|older|better) (?:ones?|two|three|option)\b"
    r"|\bthe (?:first|second|third|last|others?|former|latter|same|rest)\b(?= ?\?|$| for\b)"
    r"|\b(?:which|another|that|this|what) ones?\b|\b(?:both|either|neither|none)(?= of (?:them"
    r"|these|those|you)|\?|$)"
    r"|\b(?:d(?:er|ie|as|em|en)) (?:erste|zweite|dritte|letzte|andere|nächste|gleiche"
    r"|selbe)[nrs]?(?=\s*[?!.]|$)|\b(?:derselbe|dasselbe|dieselbe|beide[ns]?)(?=\s*[?!.]|$)"
    r"|\bl[ea]s? (?:premi(?:er|ère)|deuxième|second|seconde|troisième|derni(?:er|ère)"
    r"|même)s?(?=\s*[?!.]|$)"
    r"|\bl'autre\b|\bles (?:deux|autres)(?=\s*[?!.]|$)|\b(?:lequel|laquelle|lesquels|lesquelles)\b"
    r"|\b(?:el|la|los|las|o|a|os|as) (?:primer[oa]|segund[oa]|tercer[oa]|terceir[oa]|últim[oa]"
    r"|otr[oa]|outr[oa]|mism[oa]|mesm[oa])s?(?=\s*[?!.]|$)|\b(?:ambos|ambas)(?=\s*[?!.]|$)"
    r"|\b(?:il|la) (?:prim[oa]|second[oa]|terz[oa]|ultim[oa]|stess[oa])(?=\s*[?!.]|$)"
    r"|\bl'altr[oa]\b"
    r"|\b(?:de|het) (?:eerste|tweede|derde|laatste|andere|zelfde)(?=\s*[?!.]|$)|\ballebei\b"
    r"|\bhetzelfde\b|\b(?:перв\w+|втор\w+|трет\w+|последн\w+|друг\w+)(?=\s*[?!.]|$)|\bоба\b"
)
# "Who runs the company?": which one was said before.
_THE_ONE = re.compile(
    r"\b(?:the (?:company|firm|customer|client|order|product|contract|project|deal|ticket)"
    r"|(?:der|die|das) (?:firma|kunde|kundin|bestellung|produkt|vertrag|projekt)"
    r"|l'entreprise|la société|le (?:client|produit|contrat|projet)|la commande"
    r"|la empresa|el (?:cliente|pedido|producto|contrato|proyecto)|l'azienda|(?:il|o) (?:cliente"
    r"|contratto|contrato)|a empresa|het bedrijf|de (?:klant|bestelling))(?=\s*[?]|$)"
)
_MORE = re.compile(
    r"\b(?:tell me|know|say|show me|give me|need) (?:a bit |some |a little )?more\b(?! than)"
    r"|\bmore (?:details?|info(?:rmation)?|about (?:that|it))(?=\W*$)|\b(?:what|who|where"
    r"|anything|anyone) else\b"
    r"|^\W*(?:go on|continue|keep going|elaborate|and then|then what|same for|any others?"
    r"|instead)\b|\bmehr (?:dazu|darüber|details|infos)\b|\bsonst noch\b|^\W*(?:weiter|erzähl mehr"
    r"|noch mehr)\b"
    r"|\b(?:en savoir|dis-m'en|dites-m'en) plus\b|\b(?:quoi|qui|rien) d'autre\b|^\W*continue\b"
    r"|\b(?:más|mais) (?:detalles|detalhes|información|sobre (?:eso|isso))\b|\b(?:algo|qué|quién"
    r"|alguien) más\b"
    r"|\bmais alguma coisa\b|\bpiù (?:dettagli|informazioni)\b|\b(?:che|chi) altro\b"
    r"|\bnient'altro\b"
    r"|\bmeer (?:daarover|details|informatie)\b|\b(?:wat|wie) nog meer\b|\b(?:подробнее|ещё"
    r"|еще)(?=\W*$)|^\W*дальше\b"
)
_ECHO = _begins(
    r"and|also|or(?= )|but(?= (?:what|how|why|when|who|where|for|in))|what about|how about|what if",
    r"und|oder(?= )|aber(?= (?:was|wie|warum|wann|wer|wo))|was ist mit|wie sieht es"
    r"|wie wäre es mit",
    r"et(?! si tu\b)|ou(?= )|mais(?= (?:pourquoi|comment|quand))|qu'en est-il|y|o(?= para| en)",
    r"pero(?= (?:cuándo|cómo|por qué|qué|quién))|qué (?:tal|pasa con|hay de)|e|ed|che ne dici"
    r"|che mi dici",
    r"e quanto a|en(?= (?:voor|in|de|het|wat|hoe|waar|wanneer|wie|waarom|bij|met))|of(?= )",
    r"hoe zit het met|wat dacht je van|а|и|или|но(?= )|как насч[её]т|что насч[её]т",
)
_BARE = re.compile(
    r"^\W*(?:(?:but |and )?why(?: not| is that| so)?|how(?: so| come| much| many| long| often"
    r"| exactly)?"
    r"|when(?: exactly)?|where(?: exactly)?|who|which|since when|for how long|what for|until when"
    r"|are you sure"
    r"|really|such as|like what|for example|warum(?: nicht| denn| das)?|wieso(?: nicht)?|weshalb"
    r"|wann(?: genau)?|wo(?: genau)?|wer|wie(?: viel| lange| viele| genau)?|seit wann|welche[rs]?"
    r"|bist du sicher|wirklich|zum beispiel|pourquoi(?: pas)?|comment(?: ça)?|quand|où|qui|combien"
    r"|depuis quand|vraiment|par exemple|(?:y )?por qué(?: no)?|cómo|cuándo|dónde|quién|cuánto|cuál"
    r"|desde cuándo|de verdad|por ejemplo|perché(?: no)?|come mai|quando|dove|chi|quanto|quale"
    r"|da quando"
    r"|davvero|per esempio|por qu[eê](?: não)?|como assim|onde|quem|quanto|desde quando|sério"
    r"|waarom(?: niet)?|hoezo|hoe|wanneer|waar|wie|hoeveel|sinds wanneer|echt|bijvoorbeeld"
    r"|почему(?: нет)?|зачем|как|когда|где|кто|сколько|с каких пор|правда|например)\W*$"
)
_EAST_SIGN = re.compile(
    r"それ(?!ぞれ)|これ|あれ(?!ば)|そこ|あそこ|その(?!他)|この(?!間|前|頃|たび)|あの(?:人|会社|店|件|ホテル)|そちら|あちら"
    r"|彼女|彼(?!岸)|前者|後者|[1-9１-９一二三]番目|同じ(?:もの|の)|もっと(?:詳しく|教え)|詳しく(?:教え|説明)?(?:て|。|$)"
    r"|(?:の場合|の方|について)は[?？。]?$|[^か]は(?:どう|いかが)(?:です|でしょう)?か?[?？。]?$"
    r"|^(?:じゃあ|じゃ|では|それで|で、|あと|ほかに|他に)|続けて|もうひとつ|もう一つ"
    r"|^(?:どうして|なぜ|何故|なんで|いつ|どこ|誰|だれ|どれ|いくら|どうやって)(?:です|でしょう|なの)?(?:か)?[?？。]?$"
    r"|[它她]|(?<!其)他(?!国|山)|[这這](?!周|週|[个個]?(?:月|星期|周|次)|里$|樣|样的话)|那(?!麼多)|前者|后者|後者|第[二三四]"
    r"|其中|该(?:公司|产品|客户)|^(?:还|還)有|更多|继续|繼續|另一|另外|同样|^(?:为什么|為什麼|怎么|怎麼|为何|什么时候|谁|哪里|多少)"
    r"(?:呢|样|樣|说)?[?？。]?$"
)
_EAST_ECHO = re.compile(r"^[^何誰谁什么哪怎どいつ几幾多]{1,12}(?:呢|は)[?？]?$")
_OPENER = _words(
    r"hi|hey|hello|thanks?|thank|thx|bye|goodbye|great|good|nice|perfect|cool|sorry|welcome|hallo"
    r"|danke",
    r"tschüss|super|prima|bonjour|salut|merci|parfait|hola|gracias|adiós|perfecto|ciao|grazie|olá"
    r"|oi",
    r"obrigad[oa]|hoi|dank|bedankt|dag|привет|спасибо|пока",
)
_ASKS = re.compile(r"[?？؟]\s*$")
_QUESTION_MARKS = ("?", "？", "؟")
# "How do I authenticate?": with what, or in which language, is left open.
_NO_OBJECT = re.compile(
    r"^\W*(?:how (?:do|can|could|should|must) (?:i|we|you) [\w-]+|wie (?:kann|muss|soll|melde"
    r"|logge) (?:ich|wir|man) (?:mich |uns )?[\w-]+|comment (?:je|on|puis-je) (?:m'|me )?[\w-]+"
    r"|cómo (?:puedo|debo) [\w-]+|come (?:posso|devo) [\w-]+|como (?:posso|devo) [\w-]+"
    r"|hoe (?:kan|moet) ik (?:me )?[\w-]+|как мне [\w-]+)\W*$"
)
_NAMES_INSIDE = re.compile(r"(?<=[\w,] )[^\W\d_a-zß-öø-ÿа-я][\w'-]+")
_CLAUSE = re.compile(
    r"[,;:.]|\b(?:and|if|when|because|who|that|und|wenn|dass|weil|et|si|que|y|porque)\b"
)
_ANTECEDENT = re.compile(
    r"\b(?:my|our|the|an?|which|what|welche[rs]?|quels?|quelles?|quale|cuál|mein\w*|unser\w*|der"
    r"|die|das|eine?|mon|ma|mes|notre|un|une|el|la|mi|una)"
    r" [^\W\d_]{3,}"
)


def plain(text: str) -> str:
    """Return the text in small letters with one kind of quotes, for the patterns of this room."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    return " ".join(_POLITE_YOU.sub("", text).lower().split())


def leaves_out_all(text: str) -> bool:
    """Say whether an utterance names nothing itself: "the second one", "tell me more", "why?"."""
    return any(pattern.search(plain(text)) for pattern in (_MORE, _ORDINAL, _BARE))


def without_ordinals(text: str) -> str:
    """Return an utterance without "the second one": what it points to has its own name."""
    return re.sub(_ORDINAL.pattern, " ", text, flags=re.IGNORECASE)


def sign_of(text: str, before: str = "") -> str | None:
    """Return what tells that an utterance depends on what was said; None where it stands alone.

    before: what the assistant said last: a few words may answer a question of its own.
    """
    text = text.strip()
    if not text or len(text) > MOST_CHARS:
        return None
    said = plain(text)
    words = _WORD.findall(said)
    if _EAST.search(said):
        return _east_sign(said)
    if _OPENER.search(said) and len(words) <= MOST_REPLY_WORDS and not _ASKS.search(said):
        return None
    if _BARE.search(said):
        return "bare question word"
    if _ECHO.search(said) and len(words) <= MOST_ECHO_WORDS:
        return "goes on"
    if _MORE.search(said):
        return "asks for more"
    if _ORDINAL.search(said):
        return "one of several"
    if (found := _reference(text, said)) is not None:
        return found
    if _ASKS.search(said) and (len(words) <= MOST_SHORT_WORDS or _NO_OBJECT.search(said)):
        return "very short"
    if before.rstrip().endswith(_QUESTION_MARKS) and len(words) <= MOST_REPLY_WORDS:
        return "answers a question"
    return None


def _reference(text: str, said: str) -> str | None:
    rest = _EXPLETIVE.sub(" ", said)
    for name, pattern in (
        ("pronoun", _PRONOUN),
        ("pronoun", _ILS),
        ("pronoun", _THERE),
        ("demonstrative", _DEMONSTRATIVE),
        ("the one before", _THE_ONE),
    ):
        for found in pattern.finditer(rest):
            if not _is_told_before(text, rest[: found.start()]):
                return name
    return None


def _is_told_before(text: str, before: str) -> bool:
    """Say whether an earlier clause of the utterance itself tells what a pronoun means."""
    clauses = list(_CLAUSE.finditer(before.rstrip()))
    if not clauses:
        return False
    earlier = before[: clauses[-1].start()]
    return bool(_ANTECEDENT.search(earlier) or _NAMES_INSIDE.search(text[: len(earlier)]))


def _east_sign(said: str) -> str | None:
    bare = "".join(said.split())
    if _EAST_SIGN.search(bare):
        return "pronoun"
    if _EAST_ECHO.search(bare):
        return "goes on"
    return "very short" if len(bare) <= MOST_SIGNS and _ASKS.search(bare) else None
