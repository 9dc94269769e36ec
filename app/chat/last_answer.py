"""Utterances about the last answer: repeat, rephrase, translate, shorten it. Touches nothing.

Once what is polite is gone, the whole utterance must be one of these: "shorter" asks for another
form of the answer, "Is the way over Cologne shorter?" does not.
"""

from __future__ import annotations

import re

_POLITE = re.compile(
    '[¿¡?!.,;。！？、，"“”]|'
    r"(?<!\w)(?:please|sorry|pardon me|can you|could you|would you|ok|okay|hm+"
    r"|bitte|kannst du|könntest du|können sie|könnten sie|entschuldigung"
    r"|s'il (?:te|vous) plaît|svp|peux-tu|pouvez-vous|pourrais-tu|pourriez-vous|tu peux|pardon"
    r"|désolée?"
    r"|por favor|puedes|podrías|perdón|per favore|puoi|potresti|scusa"
    r"|você pode|pode|poderia|desculp[ea]|alsjeblieft|alstublieft|kun je|kunt u"
    r"|пожалуйста|можешь|можете|извини)(?!\w)"
)
_THAT = r"(?:that|it|this|(?:your|the) (?:last |previous )?(?:answer|reply|response|message))"
_ANEW = (  # another form of what was said, without anything else that it could be about
    r"(?:again|briefly|differently|once more|in short|(?:in|into|to) (?:english|german|french"
    r"|spanish"
    r"|italian|portuguese|dutch|russian|japanese|chinese)|(?:in|as|with) (?:an? |one |two |three "
    r"|a few )?"
    r"(?:simple |simpler |plain |other |fewer |more |short |bullet )?(?:words?|terms|points?"
    r"|sentences?"
    r"|list|table|details?|bullets|paragraph)"
    r"|more (?:simply|clearly|briefly|slowly|precisely))"
)
_DAS = r"(?:das|es|deine (?:letzte )?antwort|die (?:letzte )?antwort)"
_CELA = r"(?:(?:ta|votre|la) (?:dernière )?réponse|ça|cela)"
_ESO = r"(?:(?:tu|su|la) (?:última )?respuesta|eso|lo)"
_CORE = (
    # English
    rf"(?:say|tell me|repeat|explain)(?: me)? {_THAT}(?: (?:one more time|{_ANEW}))?",
    r"repeat(?: yourself| again)?|come again|what does that mean",
    r"(?:what|how) do you mean(?: by (?:that|this|it))?",
    r"what (?:did|do) you(?: just)? (?:say|mean)(?: again| just now)?",
    r"what did i just (?:say|ask)|what was (?:that|my last question)",
    r"i (?:don't|didn't|do not|did not) (?:understand|catch|follow)(?: (?:that|it|you|this))?",
    r"i (?:don't|do not) get(?: (?:that|it|you|this))?",  # "I didn't get it": the parcel, maybe
    r"i (?:didn't|did not) get (?:that|you)",
    rf"(?:rephrase|reword|clarify|simplify|shorten|summari[sz]e|translate|rewrite|explain|put)"
    rf"(?: {_THAT}(?: (?:in|into|to|as|for)(?: [\w'-]+){{1,4}})?)?(?: {_ANEW})?",
    rf"(?:give|show|tell|send) me (?:that|it|this)(?: {_ANEW})?",
    r"(?:a bit |a little |much )?(?:shorter|simpler|longer|more simply|in short|briefly)",
    rf"in other words|make {_THAT} (?:shorter|simpler|longer|clearer|more formal|less formal)",
    _ANEW,
    r"summari[sz]e (?:our|this|the) (?:conversation|chat)(?: so far)?",
    # German
    rf"(?:wiederhole?|wiederholen sie|sag)(?: {_DAS})?(?: noch ?mal| noch einmal| nochmals)?",
    rf"{_DAS}(?: noch ?mal| nochmals)? wiederholen|wie",
    r"(?:das )?(?:noch ?mal|noch einmal)(?: (?:sagen|erklären|wiederholen))?",
    r"wie (?:meinst|meinen) (?:du )?das|wie hast du das gemeint|was meinst du(?: damit)?",
    r"was (?:heißt|bedeutet) das|was hast du (?:gerade|eben) gesagt",
    r"(?:das )?verstehe? ich nicht|ich (?:verstehe?|habe?) (?:das |dich )?nicht(?: verstanden)?",
    rf"(?:{_DAS} )?(?:etwas |viel |ein bisschen )?(?:kürzer|einfacher|anders|ausführlicher|genauer)"
    r"(?: (?:fassen|erklären|ausdrücken|formulieren|sagen|machen))?",
    rf"(?:fasse?|übersetze?|erklär(?:e|en)?|formuliere?|schreibe?)(?: mir)? {_DAS}"
    r"(?: (?:zusammen|kürzer|einfacher|anders|genauer|um|noch ?mal|noch einmal|auf \w+|ins? \w+"
    r"|als \w+|in (?:einfachen|wenigen|einem) \w+)){0,2}",
    rf"{_DAS} (?:auf|ins?) \w+(?: übersetzen)?",
    r"(?:auf|in) (?:deutsch|englisch|französisch|einfachen worten|stichpunkten)",
    # French
    r"(?:répète|répétez|répéter|redis|reformulez?|reformuler|résumer?|traduis|traduire|expliquer?)"
    rf"(?:[- ](?:le|moi))?(?: {_CELA})?(?: (?:encore|autrement|encore une fois|plus"
    r" (?:court|simplement|clairement|brièvement)|en (?:anglais|français|allemand|espagnol|bref"
    r"|italien|une phrase|quelques mots|d'autres (?:mots|termes)))){0,2}",
    r"(?:qu'est-ce que |que )?(?:tu veux|vous voulez|veux-tu|voulez-vous) dire(?: par (?:là|ça))?",
    r"c'est-à-dire|comment(?: ça)?|je (?:ne |n'ai )?(?:comprends|pas compris|compris)(?: pas)?",
    r"plus (?:court|simple|simplement)|en (?:bref|d'autres mots)",
    # Spanish
    r"(?:repite|repita|repetir|repítelo|resume|resúmelo|traduce|tradúcelo|traducir|explica"
    rf"|explícalo|explícamelo|explicar|dilo)(?: {_ESO})?"
    r"(?: (?:otra vez|de nuevo|(?:al?|en) (?:inglés|español|alemán|francés)|en (?:una frase|pocas"
    r" palabras|otras palabras)|de otra (?:manera|forma)|más (?:corto|simple|claro"
    r"|despacio))){0,2}",
    r"(?:qué|a qué) (?:quieres decir|te refieres)(?: con eso)?|qué (?:dijiste|acabas de decir)",
    r"qué significa eso",
    r"no (?:lo )?(?:entiendo|entendí|he entendido)|más (?:corto|breve|simple)|cómo",
    # Italian, Portuguese, Dutch, Russian
    r"(?:ripeti(?:lo)?|ripetere|riassumi(?:lo)?|traduci(?:lo)?|spiega(?:lo|melo)?)(?: (?:di nuovo"
    r"|in (?:inglese|italiano|tedesco|breve|altre parole)|più (?:semplicemente|brevemente)))?",
    r"cosa (?:vuoi dire|intendi)|non (?:ho )?capi(?:to|sco)|più (?:corto|breve|semplice)|come",
    r"(?:repita|repetir|repete|resuma|traduza|explique)(?: isso)?(?: (?:de novo|em (?:inglês"
    r"|português|outras palavras)|de outra (?:maneira|forma)))?",
    r"o que (?:você )?quer(?:es)? dizer(?: com isso)?|não (?:entendi|percebi)|mais (?:curto"
    r"|simples)",
    r"(?:herhaal|herhalen|zeg|vat|vertaal)(?: (?:dat|het|je antwoord))?"
    r"(?: (?:nog een keer|opnieuw|samen|(?:naar|in) (?:het )?(?:nederlands|engels|duits)))?",
    r"(?:dat|het) (?:herhalen|korter|nog een keer)(?: \w+)?|wat bedoel je(?: daarmee)?",
    r"ik (?:begrijp|snap) (?:het|dat|je) niet|korter|simpeler",
    r"повтори(?:те)?(?: ещё раз| еще раз| это| ответ)?|что (?:ты имеешь|вы имеете) в виду"
    r"|не понял[аи]?|короче|проще",
    r"переведи(?: это| ответ)?(?: на \w+)?",
)
_LAST_ANSWER = re.compile("|".join(_CORE))
_EAST = re.compile(
    "(?:すみません|ごめん(?:なさい)?|请|請|能|可以|麻烦你?|你能|你可以)*(?:"
    "もう(?:一度|いちど|一回)(?:言っ|いっ|説明し|お願い|教え).{0,8}|繰り返し.{0,8}|言い換え.{0,8}"
    "|どういう意味.{0,6}|よくわかりません|わかりません|意味がわかりません"
    "|(?:もっと|もう少し)?(?:短く|簡単に|わかりやすく|分かりやすく)(?:説明|まとめ|言っ|して|お願い)?.{0,8}"
    "|(?:英語|日本語|中国語)(?:に|で)(?:翻訳|訳し|言っ|お願い).{0,8}"
    "|(?:今の|さっきの|最後の)(?:答え|回答|返事).{0,16}"
    "|再[说說讲講]一[遍次]|重复一[下遍]|你(?:是)?什么意思|什么意思|(?:简单|简短|短)一?点.{0,4}"
    "|换(?:个|一种)(?:说法|方式).{0,6}|(?:把|将)(?:上面|上一个|刚才|你的?|这).{0,6}翻译.{0,8}"
    "|翻译(?:成.{1,4}|一下)?|总结(?:一下)?(?:你的回答|上面的|刚才的)?|我?(?:没|不)听?(?:懂|明白)|你刚才?说了?什么"
    ")(?:ください|吗|嗎|吧)?"
)
_MARKS = re.compile("[。！？?!、，,. ]")


def is_about_last_answer(said: str) -> bool:
    """Say whether an utterance, in small letters, is about the answer before it."""
    core = " ".join(_POLITE.sub(" ", said).split())
    return bool(_LAST_ANSWER.fullmatch(core) or _EAST.fullmatch(_MARKS.sub("", said)))
