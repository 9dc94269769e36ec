"""Questions about what was said in earlier conversations, or about the user. Touches nothing."""

from __future__ import annotations

import re

from app.chat.signs import plain
from app.memory import calendar_words as c
from app.memory.days import asks_for_the_latest
from app.text.terms import terms
from app.text.words import fold

# What was said or asked: by the user, to them, or in a talk with them.
_OFTEN = r"(?:(?:just|already|ever|once|also|had|have|previously|recently|earlier|last \w+) )*"
_SAID = re.compile(
    r"\b(?:did|didn't|have|haven't|had) (?:i|we)\b.{0,60}\b(?:say|said|tell|told|ask|asked"
    r"|mention(?:ed)?|talk(?:ed)?|chat(?:ted)?|spoken|speak)\b"
    rf"|\b(?:i|we)(?:'ve|'d)? {_OFTEN}(?:said|told|asked|mentioned|talked|chatted|spoke|spoken)\b"
    r"|\b(?:did|have|had) you .{0,20}\b(?:say|said|tell|told|recommend(?:ed)?|suggest(?:ed)?"
    r"|mention(?:ed)?)\b"
    r"|\b(?:ich|wir)\b.{0,80}\b(?:gesagt|erzählt|gefragt|erwähnt|gesprochen|geredet)\b"
    r"|\bhast du (?:mir )?.{0,60}\b(?:gesagt|empfohlen|vorgeschlagen)\b"
    r"|\b(?:ai-je|j'(?:ai|avais)|je (?:t'|vous |te l')\w*|avons-nous|nous avons|on a|a-t-on|m'as-tu"
    r"|tu m'as)\b.{0,60}\b(?:dit|demandé|parlé|raconté|mentionné|recommandé|conseillé)\b"
    r"|\b(?:te|le|os) (?:pedí|hablé|comenté|he (?:dicho|contado|preguntado))\b"
    r"|\b(?:dije|pregunté|conté|mencioné|hablamos|hemos hablado)\b"
    r"|\bme (?:dijiste|recomendaste|contaste)\b"
    r"|\b(?:ho|avevo)\b.{0,30}\b(?:detto|chiesto|raccontato|menzionato)\b"
    r"|\bmi hai (?:detto|consigliato)\b|\babbiamo\b.{0,30}\b(?:parlato|detto)\b"
    r"|\b(?:eu|te|lhe) disse\b|\b(?:contei|perguntei|falei|mencionei|falamos|conversamos)\b"
    r"|\b(?:ik|we|wij)\b.{0,80}\b(?:gezegd|verteld|gevraagd|genoemd|gesproken|gepraat)\b"
    r"|\b(?:я|мы)\b.{0,60}\b(?:говорил[аи]?|сказал[аи]?|спрашивал[аи]?|спросил[аи]?"
    r"|рассказывал[аи]?|рассказал[аи]?|упоминал[аи]?)\b"
    r"|(?:私|僕|俺|わたし|先週|昨日|前回|以前|この前|この間|先月|一緒に).{0,20}"
    r"(?:話し|話した|言っ|言い|聞い|聞き|質問し|相談し|伝え|尋ね)(?:た|まし|てい)?"
    r"|(?:我|我们|我們|咱们).{0,14}(?:(?:说|說|問|问|提|讲|講|聊|谈|談)(?:过|過|了|到|的)|问你|聊什么"
    r"|(?:告诉|告訴)(?:过|過|了|你))"
)
# What was decided may have been so elsewhere: the business may know it, too.
_DECIDED = re.compile(
    r"\b(?:did|have|had) (?:i|we)\b.{0,60}\b(?:discuss(?:ed)?|decided?|agreed?|promised?)\b"
    rf"|\b(?:i|we)(?:'ve|'d)? {_OFTEN}(?:discussed|decided|agreed|promised)\b"
    r"|\b(?:did|have) you .{0,20}\bpromised?\b"
    r"|\b(?:ich|wir)\b.{0,80}\b(?:besprochen|beschlossen|entschieden|vereinbart|ausgemacht)\b"
    r"|\b(?:ai-je|j'ai|avons-nous|nous avons|on a|a-t-on)\b.{0,60}\b(?:discuté|décidé|convenu)\b"
    r"|\b(?:discutimos|decidimos|acordamos|quedamos|combinamos)\b"
    r"|\babbiamo\b.{0,30}\b(?:discusso|deciso|concordato)\b"
    r"|\b(?:ik|we|wij)\b.{0,80}\b(?:besproken|besloten|afgesproken)\b"
    r"|\bмы\b.{0,60}\b(?:обсуждали|решили|договорились)\b"
    r"|(?:先週|昨日|前回|以前|この前|先月).{0,20}決め|(?:我们|我們|咱们).{0,14}(?:讨论|討論|商量|决定|決定)"
)
_REMEMBERS = re.compile(
    r"\b(?:do|did|don't|can|will) you (?:still |even )?(?:remember|recall)\b"
    r".*\b(?:i|me|my|we|us|our|when)\b"
    r"|^\W*(?:still )?remember (?:when|what|the time|how) (?:i|we|my)\b"
    r"|\bour (?:last|previous|earlier|first) (?:conversation|chat|talk|session|discussion)s?\b"
    r"|\b(?:weißt|erinnerst|wissen|erinnern)(?: du| sie)?(?: noch| dich| sich)\b"
    r".*\b(?:ich|mich|mir|wir|uns|mein\w*|unser\w*)\b|\b(?:letztes|voriges) gespräch\b"
    r"|\bkannst du dich\b.*\b(?:mein\w*|mich|uns\w*)\b.*\berinnern\b"
    r"|\b(?:te souviens|souviens-tu|vous souvenez|souvenez-vous|te rappelles|rappelles-tu)\b.*"
    r"(?:\b(?:je|mon|ma|mes|moi|nous|notre|nos|quand)\b|\bj')"
    r"|\bnotre dernière (?:conversation|discussion)\b"
    r"|\b(?:te acuerdas|se acuerda|recuerdas|recuerda usted)\b"
    r".*\b(?:yo|mi|mis|me|nos|nuestr\w+|cuando|hablamos|dije)\b|\bnuestra última conversación\b"
    r"|\b(?:ti ricordi|si ricorda|ricordi)\b.*\b(?:io|mio|mia|miei|mie|mi|noi|nostr\w|quando)\b"
    r"|\b(?:se lembra|lembras-te|te lembras|lembra)\b"
    r".*\b(?:eu|meu|minha|meus|minhas|nós|nosso|nossa|quando)\b"
    r"|\b(?:weet je nog|herinner je je|weet u nog)\b.*\b(?:ik|mijn|we|wij|ons|onze|toen)\b"
    r"|\b(?:помнишь|помните)\b.*\b(?:я|мо[йяюеё]|мои|моего|моей|мне|мы|наш\w*|как)\b"
    r"|(?:私|僕|俺|わたし|前回|前に|先週|昨日|以前).*覚えて|前回の(?:会話|話)"
    r"|(?:我|上次).*[记記]得|[记記]得.*(?:我|上次)|上次的?(?:对话|聊天|對話)"
)
_ABOUT_USER = re.compile(
    r"\bdo you know (?:my (?:full |first )?(?:name|birthday|favou?rite \w+|preferences?|hobb\w+)\b"
    r"|who i am|where i (?:live|work)\b|what i (?:like|prefer|do for)\b|anything about me)"
    r"|\bwhat (?:do )?you (?:still )?(?:know|remember) about me\b|\bwho am i\b"
    r"|\b(?:what's|what is|what are|tell me) my (?:full |first )?(?:name|birthday|favou?rite \w+"
    r"|preferences?|allerg\w+|diet|hobb\w+)\b"
    r"|\bwhat have you (?:learned|remembered|stored) about me\b"
    r"|\bwas weißt du (?:alles |noch )?(?:über|von) mi[rc]h?\b|\bwie heiße ich\b"
    r"|\bweißt du,? (?:wie ich heiße|wer ich bin|meinen namen)\b"
    r"|\b(?:que sais-tu|tu sais) (?:de|sur) moi\b|\bcomment je m'appelle\b"
    r"|\bquel est mon (?:nom|prénom)\b|\bqué sabes (?:de|sobre) mí\b|\bcómo me llamo\b"
    r"|\bquién soy\b"
    r"|\bcosa sai di me\b|\bcome mi chiamo\b|\bsabes? (?:sobre|de) mim\b|\bcomo (?:eu )?me chamo\b"
    r"|\bqual (?:é )?o meu nome\b|\bweet je (?:over|van) mij\b|\bhoe heet ik\b"
    r"|\bзнаешь обо мне\b|\bкак меня зовут\b"
    r"|私の(?:名前|誕生日|好きな)|私のこと|私は誰|你知道我(?:是谁|叫什么|喜欢|的名字)|关于我|我叫什么|我是谁"
    r"|我的(?:名字|生日)"
)

# Who else was told: what was said to a customer, or by the business, may stand in its documents.
_OTHERS = re.compile(
    r"\b(?:speak|spoken?|talk(?:ed)?|chat(?:ted)?|discussion|conversation|session|call)"
    r"(?: last| recently| just)? (?:to|with) (?!you\b)\w"
    r"|\b(?:tell|told) (?!you\b|me\b|us\b|about\b|that\b|of\b|last\b|yesterday\b|today\b"
    r"|before\b|earlier\b|in\b|on\b)\w"
    r"|\bask(?:ed)? (?:support|sales|service|him|her|them|someone|somebody|the|our|my)\b"
    r"|\b(?:did|have|had) you .{0,20}\b(?:say|said|tell|told|mention(?:ed)?)\b"
    r"(?!.*\b(?:last|yesterday|ago|before|earlier|again)\b)"
    r"|\bwe (?:say|said|mention(?:ed)?)\b|\bhast du .{0,60}\bgesagt\b"
    r"|\b(?:m'as-tu|tu m'as) dit\b|\bme dijiste que\b|\bmi hai detto che\b"
    r"|\bmit (?!dir\b|mir\b|uns\b)\w|\bavec (?!toi\b|vous\b|moi\b)\w"
    r"|\bcon (?!te\b|lei\b|voi\b|usted\b)\w|\bcom (?!você\b)\w|\bmet (?!jou\b|je\b|u\b)\w"
    r"|\bс (?!тобой\b|вами\b)\w|(?:さん|様|氏)[にと]|[和跟](?!你|您)"
)
# "I told you that I am vegan. Which menu …?": what is said is no question, and another comes.
_MORE_THAN_ONE = re.compile(
    r"(?:[^\W\d_]{4}\.|[!?…])[\"')]*\s+\w|[。！？!?]\s*\w|,(?=[\u3040-\u9fff])|(?:が|けど|ので|から)、"
    r"|, (?:what|which|who|where|when|how|why|does|do|is|are|can)\b"
    r"|\bmy \w+(?: and|,) (?:the|your)\b"
    r"|\b(?:and|und|et|y|e|ed|en|и) (?:also |auch |aussi )?(?:what|which|who|where|when|how|why"
    r"|does|do|is|are|can|could|should|was|welche\w*|wer|wo|wann|wie|ist|sind|kann|passt|quel\w*|qui|où"
    r"|quand|comment|combien|est|qué|cuál\w*|quién|dónde|cuándo|cómo|cuánto|quale|chi|dove|come"
    r"|quanto"
    r"|wat|waar|hoe|wanneer|что|где|когда|как|сколько)\b"
)
_STATES = re.compile(
    r"^\W*(?:(?:hi|hello|hey|ok|okay|so|well|but|and|also|look|sorry|hallo|also|bonjour|hola|ciao)"
    r"\W+)?(?:(?:last \w+|yesterday|earlier|today|before|gestern|hier|ayer|ieri|ontem|вчера),? )?"
    r"(?:(?:as|like|since|because|when|wie|comme|como|come|zoals|как) )?"
    r"(?:i|we|i've|we've|i'd|we'd|ich|wir|j'ai|je|nous|on a|yo|io|eu|ik|wij|я|мы"
    r"|(?:como|come) (?:te|le|les|ti|vi))\b"
)

_EAST = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_EAST_TALK = re.compile(
    "[我你您们們咱了什么麼吗嗎过過的聊问問说說谈談告诉訴讨討论論提到都和跟在有没呢私僕俺何なにをはがにのでと話聞言質相し"
    "またかいっきてあなたこれ教伝決めすでけん]"
)
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")  # "j'ai" is two words
_TALK = frozenset(
    fold(term)
    for term in terms(
        "say said tell told ask asked mention mentioned talk talked discuss discussed decide "
        "decided agree agreed chat chatted speak spoke spoken recommend recommended suggest "
        "suggested promise promised ago earlier last anything everything something question "
        "questions gesagt erzählt gefragt erwähnt gesprochen besprochen geredet beschlossen "
        "entschieden vereinbart habe hast haben hatte worüber alles etwas dir mir dit demandé "
        "parlé raconté discuté décidé quoi avons tout hai dije pregunté conté mencioné hablamos "
        "hablado discutimos decidimos acordamos cosa detto chiesto raccontato parlato discusso "
        "deciso abbiamo disse contei perguntei falei falamos conversamos heb hebben gezegd "
        "verteld gevraagd besproken gesproken gepraat besloten waarover говорил говорила сказал "
        "сказала спрашивал спрашивала спросил спросила говорили обсуждали решили тебе вам о чем "
        "чём remember remembers recall remind erinnerst erinnere weißt souviens rappelles "
        "recuerdas acuerdas ricordi lembras herinner weet помнишь conversation conversations "
        "gespräch mentionné qu est-ce j te ho sobre regarding concerning didn hi hello hey "
        "thanks hallo danke bonjour merci hola gracias ciao grazie "
        + " ".join((*c.LAST, *c.AGO_AFTER))
    )
)


def asks_what_was_said(said: str) -> bool:
    return _SAID.search(said) is not None


def asks_what_was_decided(said: str) -> bool:
    return _DECIDED.search(said) is not None


def asks_what_is_remembered(said: str) -> bool:
    return _REMEMBERS.search(said) is not None


def asks_about_user(said: str) -> bool:
    return _ABOUT_USER.search(said) is not None


def speaks_of_others(said: str) -> bool:
    """Say whether what was said was so to others than us, or may have been by the business."""
    return _OTHERS.search(said) is not None


def says_more(said: str) -> bool:
    """Say whether a statement of what was said goes before the question, or a second one comes."""
    return bool(_MORE_THAN_ONE.search(said) or _STATES.search(said))


def topic_of(text: str, time: str) -> str:
    """Return of what a question about what was said asks: "what did I ask about shipping?".

    time: the words of it, folded. Empty where nothing is left, for texts without spaces, and where
    it would lose that the latest is asked for: then the whole question is searched for.
    """
    if _EAST.search(text):
        return ""
    frame = {*_TALK, *time.split()}
    kept = [
        word
        for word in _WORD.findall(text)
        if (told := {fold(term) for term in terms(word)})
        and fold(word) not in frame
        and not told <= frame
    ]
    topic = " ".join(kept)
    return topic if asks_for_the_latest(text) == asks_for_the_latest(topic) else ""


def asks_for_anything_said(text: str, time: str) -> bool:
    """Say whether nothing is left to look for beside the time: "what did I ask last week?".

    time: the words of it, folded.
    """
    before, _, after = fold(plain(text)).partition(time)
    rest = f"{before} {after}"
    if _EAST.search(rest):
        return _EAST.search(_EAST_TALK.sub("", rest)) is None
    return {fold(term) for term in terms(rest)} <= _TALK
