"""How texts speak to a model: patterns of lower-case text, each linear. Touches nothing.

Every gap has an end, and of two that follow each other the first can't give way to the second: what
a text costs is bounded for each of its characters.
"""

from __future__ import annotations

import re

_WHOSE = (
    r"(?:all|any|every|everything|previous|prior|above|earlier|preceding|foregoing|former|initial"
    r"|original|existing|system|your|these|other|past|old)"
)
_RULES = (
    r"(?:instructions?|directions?|directives?|guidelines?|guidance|rules?|prompts?|commands?"
    r"|constraints?|restrictions?|programming|training|policies|safety measures)"
)
# A verb, some words, what is to be ignored; in some languages the other way round.
OVERRIDE = re.compile(
    r"\b(?:ignore|disregard|forget|override|overrule|bypass|discard|dismiss|neglect|set aside"
    r"|(?:do not|don't|never|stop) (?:follow|obey|following|obeying|listen to|listening to)"
    r"|pay no attention to)\b"
    rf"[^.!?\n]{{0,30}}?\b{_WHOSE}\b[^.!?\n]{{0,25}}?\b{_RULES}\b"
    r"(?! manual| booklet| sheet| leaflet)"
    r"|\b(?:ignore|disregard|forget) (?:everything|all|anything)(?: that)? (?:you (?:were|have been"
    r"|know|learned|have)|(?:said |written |stated )?(?:above|before|so far|prior|previously))"
    rf"|\b(?:previous|prior|above|earlier|your|all) {_RULES} (?:\w+ )?(?:are|is)(?: now)? "
    r"(?:void|cancel\w+|obsolete|revoked|overridden|invalid|suspended|no longer)"
    r"|\bnew (?:system )?(?:instructions?|prompt|directive)\s?:"
    r"|\bdo (?:what|as) this (?:note|document|text|message|memory|page|cell) (?:says|tell)"
    r"|\beverything (?:said |written |told )?(?:up to|before|above) this (?:\w+ )?is "
    r"(?:void|invalid|over)"
)
OVERRIDE_ABROAD = re.compile(
    r"\b(?:ignorier\w*|vergiss|vergesst|vergessen sie|missachte\w*|verwirf|umgehe)\b"
    r"[^.!?\n]{0,40}?"
    r"\b(?:alle|vorherig\w*|bisherig\w*|obig\w*|früher\w*|vorig\w*|deine|ihre|system)\b"
    r"[^.!?\n]{0,25}?\b(?:anweisung|instruktion|regel|vorgabe|richtlinie|befehl)\w*"
    r"|\b(?:ignore[zr]?|oublie[zr]?|oublier|néglige[zr]?|contourne[zr]?|pas compte)\b"
    r"[^.!?\n]{0,40}?"
    r"\b(?:instructions|consignes|règles|directives)\b[^.!?\n]{0,15}?"
    r"\b(?:précédent\w*|antérieur\w*|ci-dessus|initial\w*|système|reçues)"
    r"|\b(?:ignor[aeá]\w{0,3}|olvid[aeá]\w{0,3}|desconsider\w+|esque[çc]\w+|dimentic\w+|descart\w+"
    r"|no hagas caso|non tener conto|não siga|no sigas|non seguire)\b"
    r"[^.!?\n]{0,30}?\b(?:instrucciones|istruzioni|instruções|reglas|regole|regras|órdenes|ordens"
    r"|direttive|directrices|diretrizes)\b[^.!?\n]{0,15}?"
    r"\b(?:anterior\w*|previ\w+|prévi\w+|precedent\w*|iniciale?s?|inizial\w*|iniciais|sistema"
    r"|de arriba|acima|sopra)"
    r"|\b(?:negeer|vergeet|omzeil)\b[^.!?\n]{0,30}?\b(?:vorige|eerdere|bovenstaande|voorgaande"
    r"|alle|je|systeem)\b[^.!?\n]{0,25}?\b(?:instructies|opdrachten|regels|aanwijzingen)\b"
    r"|\b(?:игнорируй\w*|проигнорируй\w*|забудь\w*|отмени\w*)\b[^.!?\n]{0,30}?"
    r"\b(?:все|всё|предыдущ\w+|прежн\w+|прошл\w+|сво[иё]\w*)\b[^.!?\n]{0,25}?"
    r"\b(?:инструкци|указани|правил|команд)\w*"
    r"|\b(?:zignoruj|ignoruj|zapomnij)\b[^.!?\n]{0,30}?\b(?:poprzedni\w+|wcześniejsz\w+|wszystkie)\b"
    r"[^.!?\n]{0,25}?\b(?:instrukcj|polece|zasad|wytyczn)\w*"
    r"|\b(?:önceki|yukarıdaki|tüm)\b[^.!?\n]{0,25}?\b(?:talimat|yönerge|kural)\w*[^.!?\n]{0,15}?"
    r"(?:yok say|unut|görmezden|dikkate alma)"
    r"|(?:忽略|無視|无视|忘记|忘掉|忘記|不要遵守)[^。！？\n]{0,14}?(?:之前|以前|上面|上述|以上|先前|所有|前面|系统|系統)"
    r"[^。！？\n]{0,10}?(?:指令|指示|规则|規則|提示|要求|命令)"
    r"|(?:以前|これまで|上記|前|先|すべて|全て|システム)の?[^。！？\n]{0,10}?(?:指示|命令|ルール|プロンプト|指令)"
    r"[^。！？\n]{0,10}?(?:無視|忘れ|従わ)"
)

ROLE = re.compile(
    r"<\|[a-z_ ]{2,24}\|>|\[/?inst\]|<</?sys>>|</?(?:system|assistant|human)>"
    r"|^[#*>\s]{0,8}(?:system|developer)(?: (?:message|prompt|override|note|instruction)s?)?"
    r"\s{0,3}:"
    r"[^\n]{0,80}?\b(?:you|your|user|customer|assistant|ignore|must|never|always|admin\w*)\b"
    r"|^#{1,6} ?(?:system|instructions?|assistant|human|response)\s{0,3}:"
    r"|^\s{0,8}(?:human|user)\s{0,3}:[^\n]{0,400}\n\s{0,8}assistant\s{0,3}:"
    r"|^\s{0,8}system\s{0,3}:[^\n]{0,400}\n\s{0,8}(?:assistant|user|human)\s{0,3}:"
    r"|[\"']role[\"']\s{0,3}:\s{0,3}[\"'](?:system|developer)[\"']",
    re.MULTILINE,
)

_TOOLS = r"(?:search_memory|search_history|search_documents|edit_block|remember|revise|forget)"
_CALLS = r"\b(?:call|calls|invoke|use|run|execute|trigger)\b"
TOOL = re.compile(
    rf"{_CALLS} (?:[a-z]+ ){{0,3}}[`'\"]?(?:search_(?:memory|history|documents)|edit_block)\b"
    rf"|{_CALLS} (?:[a-z]+ ){{0,3}}[`'\"]?{_TOOLS}[`'\"]?(?:\s?\(| (?:tool|function)\b)"
    rf"|{_CALLS} (?:[a-z]+ ){{0,2}}(?:tool|function) [`'\"]?{_TOOLS}\b"
    r"|\b(?:execute|perform|make|issue|emit)\b (?:[a-z]+ ){0,3}(?:tool|function)[ _]calls?\b"
    r"|[\"'](?:tool_calls|function_call|tool_use)[\"']\s{0,3}:|</?(?:tool_call|function_calls?|invoke)\b"
    rf"|[\"'](?:name|tool|function)[\"']\s{{0,3}}:\s{{0,3}}[\"']{_TOOLS}[\"']"
    r"|\b(?:search_(?:memory|history|documents)|edit_block)\s?\("
)

_LADEN = (  # a query that has room for what was said
    r"[^)\"'\s?]{0,300}+\?[^)\"\n]{0,300}?"
    r"(?:[{<\[$]|%7b|\b(?:data|secrets?|leak|conversation|chat|history|prompt|payload|exfil\w*)=)"
)
_PRIVATE = (
    r"(?:conversation|chat|history|prompt|instructions?|secrets?|passwords?|credentials|api keys?"
    r"|memor(?:y|ies)|personal data|context|user's|e-?mail address|everything (?:above|you know))"
)
EXFILTRATION = re.compile(
    rf"\[[^\[\]\n]{{0,120}}+\]\(\s{{0,3}}https?://{_LADEN}"
    rf"|<(?:img|iframe|a|script)\b[^>\n]{{0,120}}?(?:src|href)\s?=\s?[\"']?https?://{_LADEN}"
    r"|<img\b[^>\n]{0,120}?src\s?=\s?[\"']?https?://[^\"'>\s?]{1,200}+\?[^\"'>\s]{0,60}?=secrets?"
    r"|\b(?:send|post|upload|forward|transmit|append|leak|exfiltrate|submit|add|put|include)\b"
    rf"[^.!?\n]{{0,50}}?\b{_PRIVATE}[^\n]{{0,80}}?\bhttps?://"
)

_INNER = r"(?:system|initial|hidden|secret|original|internal|developer|base|full)"
PROMPT_LEAK = re.compile(
    r"\b(?:reveal|print|show|output|repeat|display|tell|give|leak|write|share|expose|dump|disclose"
    r"|summari[sz]e|translate|quote)\b"
    rf"[^.!?\n]{{0,30}}?(?:\byour (?:{_INNER} ){{0,2}}(?:prompt|instructions?|rules|guidelines"
    rf"|message|configuration)\b|\b(?:{_INNER} )(?:prompt|instructions)\b)"
    rf"|\bwhat (?:are|is|were|was) (?:your|the) {_INNER} (?:prompt|instructions?|message|rules)\b"
    r"|\b(?:repeat|print|output|copy|quote)\b[^.!?\n]{0,20}?\b(?:text|words|everything|all|lines)"
    r"(?: that (?:is|are|stands?))? above\b"
    r"|\b(?:gib|zeig\w*|nenn\w*|verrat\w*|wiederhol\w*)\b[^.!?\n]{0,30}?\bsystem-?\s?(?:prompt|anweisung)"
    r"|\b(?:révèle\w*|affiche\w*|montre\w*|donne\w*|répète\w*)\b[^.!?\n]{0,30}?"
    r"\b(?:prompt|instructions) (?:système|secr|cach|initial)"
    r"|\b(?:revel\w+|muestr\w+|imprim\w+|mostr\w+|rivel\w+|stamp\w+)\b[^.!?\n]{0,30}?"
    r"\b(?:prompt|instrucciones|istruzioni|instruções)\b[^.!?\n]{0,6}?"
    r"\b(?:sistema|inicial\w*|inizial\w*|iniciais|ocult\w+|nascost\w+)"
    r"|\b(?:toon|geef|onthul)\b[^.!?\n]{0,30}?\bsysteemprompt"
    r"|\b(?:покажи|выведи|раскрой|повтори)\w*[^.!?\n]{0,30}?"
    r"\bсистемн\w+ (?:промпт|инструкц|сообщен)"
    r"|(?:显示|输出|透露|告诉我|重复)[^。！？\n]{0,10}?(?:系统提示|提示词|系统指令)"
    r"|システムプロンプト[^。！？\n]{0,10}?(?:表示|教え|出力|見せ)"
)

_UNBOUND = (
    r"(?:no|without(?: any)?|free (?:of|from)(?: any)?) "
    r"(?:content |safety |ethical |moral )?(?:restrictions?|rules|filters?|polic(?:y|ies)|limits"
    r"|limitations|guidelines|censorship)"
)
PERSONA = re.compile(
    r"\byou (?:are|will be) now (?:known as )?(?:an? |the |my )?(?:\w+ )?"
    r"(?:dan\b|unrestricted|jailbroken|evil|uncensored|unfiltered|free from|ai\b|assistant\b"
    r"|chatbot|bot\b|model\b"
    r"|agent\b|pirate|hacker|in (?:\w+ )?mode)"
    rf"|\b(?:from now on|you are|you will|act as|pretend|behave|role-?play|imagine)\b"
    rf"[^.!?\n]{{0,100}}?\b(?:unrestricted\b|jailbroken\b|{_UNBOUND})"
    r"|\bdo anything now\b|\bjailbreak\b|\b(?:developer|debug|god|dan|admin|sudo) mode"
    r" (?:is |now )?(?:enabled|activated|on\b|with no)"
    r"|\byou are no longer (?:an? )?(?:ai\b|assistant|bound|restricted)"
    r"|\b(?:du bist|sie sind) (?:jetzt|nun|ab (?:jetzt|sofort)) (?:dan\b"
    r"|kein\w*|eine? (?:\w+ )?(?:ki|bot|assistent|hacker|pirat))"
    r"|\btu es (?:maintenant|désormais) (?:dan\b|une? (?:\w+ )?"
    r"(?:ia|robot|assistant|hacker|pirate))"
    r"|\b(?:ahora eres|ora sei|agora (?:você|tu) (?:é|és)) (?:dan\b|(?:una?|uno|un'|um) ?"
    r"(?:\w+ )?(?:ia|bot|asistente|assistente|hacker|pirata))"
    r"|(?:你现在是|从现在起你是|從現在起你是)[^。！？\n]{0,12}?(?:dan|没有|不受|管理员|助手|模型)"
)

_WHITE = r"\s?:\s?(?:#fff(?:fff)?\b|white\b)"
HIDDEN_STYLE = re.compile(
    r"style\s?=\s?[\"'][^\"'>]{0,300}?(?:font-size\s?:\s?0|opacity\s?:\s?0(?![.\d])"
    rf"|(?<!-)color{_WHITE}[^\"'>]{{0,200}}?background[a-z-]{{0,8}}{_WHITE}"
    rf"|background[a-z-]{{0,8}}{_WHITE}[^\"'>]{{0,200}}?[;\s]color{_WHITE})"
)
HIDDEN = re.compile(  # runs that are not seen; letters as tags, but those of flags; reversal
    "[\u00ad\u200b-\u200d\u2060-\u2064\ufeff]{3,}"
    "|(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007e]"
    "|\U0001f3f4[\U000e0020-\U000e007e]{7}|[\u202d\u202e]"
)
