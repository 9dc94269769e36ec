"""What tells the kind of a sentence, in the languages we know some of. Touches nothing.

English is covered best; a language that is missing costs rank, not correctness.
"""

from __future__ import annotations

import re

SPEAKER = re.compile(r"\s*(user|assistant)\s*:\s*", re.IGNORECASE)  # of a summary's line
CITATION = re.compile(r"\s*\[(?:m?\d+|profile)\]")


def _any(*alternatives: str) -> str:
    return "|".join(alternatives)


ASKS = re.compile(
    _any(
        r"[?？؟]|[かの]。?\s*$|吗|呢|什么|谁|哪|怎么|多少|何|誰|いつ|どこ|どう|教えて",
        r"\b(?:like|want|need|love) to know\b",
        r"\b(?:please|can you|could you) (?:tell|show|give|list|find)\b",
        r"^\s*(?:please |and |but |so )?(?:who|whom|whose|what|which|when|where|why|how|is|are|were"
        r"|do(?! not)|does|did|can|could|would|should|tell|show|list|give|find|explain|describe"
        r"|summari[sz]e|remind(?! me to)|name|wer|wen|wem|was|wann|wo|wie|warum|welche[rs]?|zeig"
        r"|nenne?|sag|qui|que|quoi|quand|où|comment|pourquoi|quels?|quelles?|qué|quién|cuál|cuándo|dónde"
        r"|cómo|cuánto|هل|ما|من|متى|أين|كيف|لماذا|كم)(?!\w)",
    ),
    re.IGNORECASE,
)

ASKS_WHAT_WAS_SAID = re.compile(
    _any(
        r"\b(?:did|have|had) (?:i|we|you) (?:\w+ )?(?:ask|sa[iy]|tell|told|mention|talk"
        r"|discuss|sp[eo]ak)",
        r"\b(?:i|we|you) (?:asked|said|told|mentioned|talked|discussed|spoke)\b",
        r"\b(?:habe ich|haben wir|hast du)\b.*\b(?:gefragt|gesagt|erzählt|erwähnt|besprochen"
        r"|geredet)",
        r"\b(?:ai-je|j'ai|avons-nous|as-tu) (?:\w+ )?(?:demandé|dit|parlé|raconté|mentionné)",
        r"\b(?:pregunté|dije|conté|mencioné|hablamos|dijiste)\b|(?:聞|言|話)い?(?:ました|った|いた)",
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
