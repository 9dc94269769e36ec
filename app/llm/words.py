"""Words that tell what a sentence is, in the languages we know some of. Touches nothing.

English is covered best; a language that is missing costs rank, not correctness.
"""

from __future__ import annotations

import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _any(*alternatives: str) -> str:
    return "|".join(alternatives)


# A full stop after one of these ends no sentence.
ABBREVIATIONS = _set(
    "mr mrs ms dr prof st no vs etc inc ltd co corp approx dept jan feb mar apr jun jul aug sep "
    "sept oct nov dec e.g i.e u.s z.b d.h a.m p.m bzw ca nr usw str hr fr mme mlle sr sra av p.ex"
)
TITLES = _set("mr mrs ms dr prof hr fr mme mlle sr sra st")
MONTHS = _set("januar februar märz april mai juni juli august september oktober november dezember")

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

ASKS = re.compile(
    _any(
        r"[?？؟]|[かの]。?\s*$|吗|呢|什么|谁|哪|怎么|多少|何|誰|いつ|どこ|どう|教えて",
        r"\b(?:like|want|need|love) to know\b",
        r"\b(?:please|can you|could you) (?:tell|show|give|list|find)\b",
        r"^\s*(?:please |and |but |so )?(?:who|whom|whose|what|which|when|where|why|how|is|are|were"
        r"|do(?! not)|does|did|can|could|would|should|tell|show|list|give|find|explain|describe"
        r"|summari[sz]e|remind|name|wer|wen|wem|was|wann|wo|wie|warum|welche[rs]?|zeig|nenne?|sag"
        r"|qui|que|quoi|quand|où|comment|pourquoi|quels?|quelles?|qué|quién|cuál|cuándo|dónde|cómo"
        r"|cuánto|هل|ما|من|متى|أين|كيف|لماذا|كم)(?!\w)",
    ),
    re.IGNORECASE,
)

STATES = re.compile(
    _any(
        r"\b(?:me|us|don'?t|do not|i|i'm|i've|i'd|i'll|my|mine|we|we're|our|ours|please|is|are|was"
        r"|were|will|has|have|prefer\w*|wants?|needs?|likes?)\b",
        r"\b(?:ich|mein\w*|wir|unser\w*|bitte|ist|sind|je|mon|mes|nous|notre|nos|est|sont|yo|mi|mis"
        r"|nosotros|nuestr\w+|es|son)\b",
        "私|僕|俺|です|ます|我|أنا|اسمي|أفضل",
    ),
    re.IGNORECASE,
)

OPENS_OR_CLOSES = re.compile(
    r"^\W*(?:hi|hello|hey|thanks?|thank you|thx|ok|okay|great|good (?:morning|evening|afternoon)"
    r"|bye|goodbye|hallo|danke|bonjour|merci|hola|gracias|ciao|grazie|こんにちは|ありがとう\w*"
    r"|你好|谢谢|مرحبا|شكرا)\b[\w\s,]{0,16}\W*$",
    re.IGNORECASE,
)

# What makes a sentence worth keeping: one pattern a reason.
CUES = tuple(
    re.compile(cue, re.IGNORECASE)
    for cue in (
        # a decision
        r"\b(?:decid|agree|approv|confirm|sign|cancel|choos|chose|go with|going with|entschied"
        r"|vereinb|beschloss|décid|accord|acord)\w*|決定|決め|合意|决定|同意|确认|قرر|اتفق",
        # a preference, a wish
        r"\b(?:prefer|like|love|hate|favou?rite|rather|always|never|want|need|bevorzug|lieber"
        r"|möcht|brauch|préfèr|aime|veux|voudr|besoin|gust|quier|necesit)\w*"
        r"|好き|嫌い|希望|お願い|ほしい|欲しい|喜欢|需要|想要|请|أفضل|أحب|أريد|أحتاج",
        # an open action
        r"\b(?:todo|deadline|due|schedul|remind|send|call back|follow.?up|next step|must|should"
        r"|will|by|bis|frist|erinner|schick|muss|soll|rappel|envoy|doit|recuerd|envi|debe)\w*"
        r"|予定|締め切り|までに|送って|截止|安排|发送|提醒|موعد|يجب|أرسل",
        # a changed requirement
        r"\b(?:instead|chang|no longer|anymore|switch|mov|actually|postpon|replac|stattdessen"
        r"|änder|nicht mehr|verschieb|plutôt|report|ahora|cambi)\w*"
        r"|変更|代わり|不再|变更|بدلا|تغيير",
        # who somebody is
        r"\b(?:my|our|i am|i'm|call me|i work|i live|i run|ich bin|ich heiße|mein|unser|je suis"
        r"|je m'appelle|mon|notre|soy|me llamo|mi|nuestro)\b|私|僕|名前|我叫|我是|我的|اسمي|أنا",
        # a number or a date
        r"\d",
    )
)
