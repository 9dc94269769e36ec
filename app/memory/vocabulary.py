"""Word lists of the grounding check: weekdays, number words, common words. Touches nothing.

All keys are folded (no accents, lower case). The lists are short on purpose: they hold function
words, the usual vocabulary of conversation summaries, and what marks a name.
"""

from __future__ import annotations

from app.text.words import fold


def _list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WEEKDAYS = """
monday montag lundi lunes lunedì segunda-feira maandag понедельник 月曜日 星期一 周一 الاثنين
tuesday dienstag mardi martes martedì terça-feira dinsdag вторник 火曜日 星期二 周二 الثلاثاء
wednesday mittwoch mercredi miércoles mercoledì quarta-feira woensdag среду 水曜日 周三 الأربعاء
thursday donnerstag jeudi jueves giovedì quinta-feira donderdag четверг 木曜日 星期四 周四 الخميس
friday freitag vendredi viernes venerdì sexta-feira vrijdag пятницу 金曜日 星期五 周五 الجمعة
saturday samstag sonnabend samedi sábado sabato zaterdag суббота субботу 土曜日 星期六 周六 السبت
sunday sonntag dimanche domingo domenica zondag воскресенье 日曜日 星期日 星期天 周日 周天 الأحد
"""
WEEKDAY_WORDS = _WEEKDAYS.split()
WEEKDAYS = {
    fold(name): number
    for number, row in enumerate(_WEEKDAYS.strip().splitlines())
    for name in row.split()
}
WORDLIKE_MONTHS = frozenset({"may", "march", "august", "mars"})  # months only with a capital

# Days from the day of the conversation.
SHIFTS = {
    **dict.fromkeys(
        _list("today tonight heute aujourd'hui hoy oggi hoje vandaag сегодня 今日 今天"), 0
    ),
    **dict.fromkeys(_list("tomorrow tmrw morgen demain mañana domani amanhã завтра 明日 明天"), 1),
    **dict.fromkeys(_list("yesterday gestern ayer ieri ontem gisteren вчера 昨日 昨天"), -1),
}

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
NUMBER_WORDS = {
    **{word: n for n, word in enumerate(_UNITS.split())},
    **{word: n * 10 for n, word in enumerate(_TENS.split(), start=3)},
    **{word: n for n, word in enumerate(_ORDINALS.split(), start=1)},
    **{"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000},
    **{"billion": 1_000_000_000, "trillion": 1_000_000_000_000},
}
# Articles, pronouns and units of time far more often than numbers; a bare scale is vague.
VAGUE_NUMBERS = frozenset({"zero", "one", "first", "second", "hundred", "thousand", "million"})
# Read in a source only: they may support a number, but are too ambiguous to be held against one.
_FOREIGN = """
2 two zwei deux dos due dois duas twee twice double couple pair both два две дважды
3 drei trois tres tre três drie triple trio thrice три | 4 vier quatre cuatro quattro quatro четыре
5 fünf cinq cinco cinque vijf пять
6 sechs six seis sei zes шесть
7 sieben sept siete sette sete zeven семь
8 acht huit ocho otto oito восемь
9 neun neuf nueve nove negen девять | 10 zehn dix diez dieci dez tien десять
11 elf onze once undici одиннадцать | 12 zwölf douze doce dodici doze twaalf двенадцать
1 ein eine un une uno una um uma een один одна
"""
FOREIGN_NUMBERS = {
    fold(word): number
    for row in _FOREIGN.replace("|", "\n").strip().splitlines()
    for number, *names in [row.split()]
    for word in names
}

# The power of ten after a number. `m` may also be a metre.
SCALES = {
    **dict.fromkeys(_list("k thousand tausend mil mille mila tsd тыс тысяч тысячи 千"), 3),
    **dict.fromkeys(_list("万 萬"), 4),
    **dict.fromkeys(_list("lakh lakhs"), 5),
    **dict.fromkeys(
        _list(
            "m mn mio million millions millionen millones millón milioni milione milhões milhão "
            "млн миллион миллиона миллионов"
        ),
        6,
    ),
    **dict.fromkeys(_list("crore crores"), 7),
    **dict.fromkeys(_list("億 亿"), 8),
    **dict.fromkeys(
        _list("b bn mrd billion billions milliard milliards milliarden miliardi млрд"), 9
    ),
    **dict.fromkeys(_list("hundred"), 2),
}

# An adjective of nationality or language, and how the source may begin a word for the same people.
PEOPLES = {
    row.split()[0]: tuple(row.split())
    for row in """
american america usa u.s|arabic arab|australian austral|austrian austria osterr|belgian belg
brazilian brasil|british brit england uk|canadian canad|chinese chin|czech czech|danish denmark dan
dutch nether holl|egyptian egypt|english engl|european europ|finnish fin|french fren franc franz
german german deutsch allem alem|greek greec grec griech|hebrew hebr isr|hindi hind|hungarian hungar
indian india|indonesian indones|irish ire|israeli israel|italian ital|japanese japan|korean korea
mexican mexic|norwegian norw|polish pol|portuguese portug|romanian roman|russian russ
scottish scot|spanish spa esp|swedish swed|swiss switz schweiz|thai thai|turkish turk
ukrainian ukrain|vietnamese viet
""".replace("\n", "|").split("|")
    if row
}

# Never names, wherever they stand: roles, titles, currencies, everyday abbreviations.
NOT_NAMES = _set(
    "i user users customer customers client clients assistant agent ai bot speaker participant "
    "usuario usuaria utilisateur utilisatrice nutzer nutzerin kunde kundin utente cliente "
    "assistente usted ustedes ud lei вы вас вам ваш mr mrs ms miss dr prof sir madam sr sra srta "
    "mme mlle m herr frau herrn mister eur usd gbp chf jpy inr cny rub ok okay tv pm am "
    "id faq asap tbd na etc vs utc gmt est pst cet dm pdf csv url api app sms q a"
)

# Function words: never names, and the means by which a language is told.
FUNCTION = {
    "en": "the a an am and or but nor so yet of in on at by for with from to into onto over under "
    "about after before during since until till while when where which who whom whose what why "
    "how that this these those there here it its he she they we you his her hers their theirs our "
    "your my me him them us is are was were be been being has have had do does did can could "
    "should would must might shall not no yes if then than as because although though however "
    "also both either neither each every all any some many much more most few several such only "
    "just even still again already once now later soon up out off down per via upon between among "
    "against without within through throughout despite regarding concerning except like unlike "
    "another other others same himself herself themselves itself nothing everything someone "
    "everyone anyone nobody let",
    "de": "der die das den dem des und oder aber nicht ist sind war waren ein eine einen einem "
    "einer eines in an so mit für auf von vom zu zum zur bei beim nach auch als wie dass über bis "
    "kein keine möchte soll sollen muss kann wird werden wurde wurden hat haben hatte sich sie er "
    "es ihr ihre ihren sein seine seinen im am um noch nur sowie durch gegen ohne unter vor "
    "zwischen wenn weil damit bereits jedoch dabei außerdem nächste bittet wünscht möchten wir "
    "ich",
    "fr": "le la les l un une des du de d au aux et ou mais donc ni car que qu qui quoi dont où "
    "ce c cet cette ces il elle ils elles on nous vous je j tu son sa ses leur leurs notre votre "
    "mon ma mes est sont était étaient a ont avait être avoir pas ne n plus dans sur sous avec "
    "sans pour par chez entre vers depuis pendant après avant lors selon si se s y en comme aussi "
    "très tous toutes tout toute chaque quelques plusieurs",
    "es": "el la los las un una unos unas lo al del de y e o u pero sino que quien quienes cual "
    "cuando donde como porque si no se su sus mi mis tu le les me te nos este esta estos estas "
    "ese esa esto es son era eran fue fueron ha han había está están ser estar en con sin por "
    "para sobre entre hasta desde hacia según durante tras ante también más muy ya todo todos "
    "toda todas cada ella ellos ellas él yo",
    "it": "il lo la gli le un uno una di del dello della dell dei degli delle da dal dalla a al "
    "allo alla all in nel nella nell su sul sulla con per tra fra e ed o ma che chi cui non è "
    "sono era erano ha hanno aveva essere avere si suo sua suoi loro questo questa questi queste "
    "come quando dove perché se anche più molto già tutto tutti ogni lui i",
    "pt": "o a os as um uma uns umas do da dos das de no na nos nas em ao à aos pelo pela por "
    "para com sem sobre entre até desde e ou mas que quem quando onde como porque se não é são "
    "era foi foram tem têm tinha ser estar está seu sua seus suas este esta esse essa isto também "
    "mais muito já todo todos cada ele ela eles elas",
    "nl": "de het een en of maar dat die dit deze van in op aan bij met voor naar uit over onder "
    "tot door om te is zijn was waren heeft hebben had wordt worden werd zal kan moet wil niet "
    "geen ook als er hij zij ze wij we ik u hun haar zijn hem wie wat waar wanneer nog al "
    "alle na",
    "ru": "и а но или в во на с со к ко у о об от до из за по под над для при про без через "
    "между это этот эта эти тот та те он она оно они мы вы я его ее их им ей ему что кто где "
    "когда как потому если не ни нет да был была было были есть будет также еще уже все весь вся "
    "каждый который которая которые чтобы так тоже после перед",
}

# What else begins the sentences of a summary.
_USUAL = {
    "en": "account action actions additional advice afterwards agenda agent agreement "
    "alternative answer appointment approach area article aspect attendee background bank barring "
    "based beside besides best better big billing book both budget bug business buyer call caller "
    "care case cash change chat checkout child children choice city class clear close colleague "
    "comment common communication company complaint concern conclusion condition confirm contact "
    "content context contract conversation cost couple course credit current data date day days "
    "deadline deal dear debt decide decision default delay delivery design detail details "
    "dialogue discount discussion document due early effort email end entire error estimate event "
    "everybody evidence example expect experience extra fact family favorite favourite fee "
    "feature feedback file final finance find first five focus follow followup food form four "
    "free friend friends full fun further future general get give given goal goals good great "
    "group guest half health help high highlight history hobby home hour house idea immediate "
    "important info information initial input instead insurance intent interest invoice issue "
    "issues item job join key kid kids kind last late latest lead leader less lesson level "
    "license life likes limit link list little living local location long look loss lot love low "
    "mail main maintain maintenance major make manager market mean medium meanwhile meet memory "
    "mention message middle minor miss mode money month months mood morning mother move music "
    "name need "
    "needs new news next night nine note notes notice number object offer office old open opinion "
    "option options order orders outcome outlook overall overview own owner page pain parent "
    "parents part partner past pay payment pending people period perhaps person pet phone photo "
    "pickup picture piece place plan plans platform point policy positive possible post "
    "preference preferences prefers present previous price primary prior priority problem process "
    "product profile progress project proposal purchase purpose question quick quote quite rather "
    "reason recap recent refund reminder renewal repair reply report request requests require "
    "research resource response rest result return review right risk role room sale sales scope "
    "seat second security send service session set seven shift shop short side similar site "
    "situation six skill small software solution soon source special specific staff start state "
    "status step steps stock store story stress strong student subject subscription success "
    "suggest suggestion summary supplier support sure system task tasks team ten term terms test "
    "text thank thanks third three ticket time timeline times title today together tomorrow tone "
    "tool topic topics total trade training travel trip trust turn two type unit update updates "
    "use vendor version view visit want wants warm warranty way website week weeks well wish "
    "women work works worry year years yesterday young asks says keep keeps takes talks thinks "
    "feels seems gets gives makes sends shows tells wrote said told spoke felt began came went "
    "took gave made met sent left",
    "fr": "client cliente demande décision décisions préférence préférences prochaine prochaines "
    "prochain étape étapes action actions résumé contexte sujet budget contrat commande problème "
    "question réponse points point conversation rendez-vous assistant besoin besoins aucune aucun "
    "enfin ensuite puis ainsi cependant toutefois changement important rien travaille habite aime "
    "souhaite veut préfère objectif modification exigence exigences suivi prix facture livraison",
    "es": "cliente clienta usuario usuaria decisión decisiones preferencia preferencias próximo "
    "próximos próxima próximas paso pasos acción acciones resumen contexto tema temas presupuesto "
    "contrato pedido problema pregunta respuesta punto puntos conversación reunión asistente "
    "necesita necesidad además finalmente luego después antes ahora prefiere quiere desea vive "
    "trabaja tiene cambio cambios pendiente pendientes requisito requisitos precio factura "
    "entrega",
    "it": "cliente utente decisione decisioni preferenza preferenze prossimo prossimi prossima "
    "prossime passo passi azione azioni riepilogo contesto tema contratto ordine problema domanda "
    "risposta punto punti conversazione riunione assistente inoltre infine poi dopo prima ora "
    "preferisce vuole desidera vive lavora cambiamento requisito requisiti prezzo fattura "
    "consegna",
    "pt": "cliente usuário usuária utilizador decisão decisões preferência preferências próximo "
    "próximos próxima próximas passo passos ação ações resumo contexto tema contrato pedido "
    "problema pergunta resposta ponto pontos conversa reunião assistente além finalmente depois "
    "antes agora prefere quer deseja mora trabalha mudança requisito requisitos preço fatura "
    "entrega",
    "nl": "klant gebruiker beslissing beslissingen voorkeur voorkeuren volgende stap stappen "
    "actie acties samenvatting context onderwerp contract bestelling probleem vraag antwoord punt "
    "punten gesprek afspraak assistent daarna verder tenslotte eerst nu wil woont werkt wijziging "
    "eisen prijs factuur levering besluit openstaande",
    "ru": "клиент клиентка клиента пользователь пользователя решение решения предпочтение "
    "предпочтения следующий следующие следующее шаг шаги действие действия итог итоги контекст "
    "тема договор заказ проблема вопрос ответ встреча разговор беседа ассистент кроме затем потом "
    "сначала теперь далее хочет просит предпочитает живет работает обсудили договорились срок "
    "цена доставка",
}

# Endings of English words that are seldom names, and names that have them all the same.
ENDINGS = _list(
    "ing ed ly tion tions sion sions ment ments ness ity ities ance ence ism ists able ible ful "
    "less ous ive ives ers ors ures ship hood ward wards wise oval ical onal ental cial age ist "
    "ency ancy graphy"
)
NAMES_ALL_THE_SAME = _set(
    "mohammed muhammed ahmed fred alfred wilfred winifred jared reed emily kelly sally molly "
    "polly nancy clancy savage billy willy lily holly carly beverly kimberly shelly nelly wally "
    "harding sterling "
    "manning fleming browning irving channing golding beijing nanjing chongqing boeing felicity "
    "charity trinity unity verity clement constance clarence terrence terence laurence lawrence "
    "florence prudence providence clemence temperance anders sanders rivers myers ayers rogers "
    "meyers connors masters waters flowers powers edward howard hayward woodward seward italy "
    "sicily clive olive bing ming xing ling ned ted jed zed mahmoud"
)

GERMAN = frozenset(fold(word) for word in FUNCTION["de"].split())
FUNCTION_WORDS = frozenset(
    fold(word) for lang, words in FUNCTION.items() if lang != "de" for word in words.split()
)
COMMON_WORDS = FUNCTION_WORDS | frozenset(
    fold(word) for words in _USUAL.values() for word in words.split()
)

# In German every noun has a capital; these say that the next word, or the one before, is a name.
NAME_CUES = _set(
    "herr herrn frau firma familie namens heisst dr prof kollege kollegen kollegin stadt"
)
LEGAL_FORMS = _set("gmbh ag kg ohg se ug ev")
