"""Which sentences of a summary are kept: tables by language, known limits, real summaries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.grounding import Grounded, keep_supported
from app.text.sentences import sentences

EN = (
    "user: Hi, Alice Vance from Acme here. We pay $120,000 a year for 12 seats, renewal is on "
    "2026-10-15. Order ORD-2026-0311 is late, it runs v2.3.1 on our A320 board. Mail me at "
    "alice@acme.com or see https://acme.com/orders?id=7. My daughter Zoë is three and loves the "
    "iPhone. We moved from Italy. Call me tomorrow at 2:30 pm, or by Friday. We grew 4.50 percent, "
    "1.5M users now, third place. Ship it on 3 November to DoorDash. The office is in New York.",
    "assistant: Noted, I will escalate the order and send an update. Twenty-five boxes wait.",
    "2026-10-01",
    "Alice",
)
DE = (
    "user: Hallo, hier ist Jürgen Weber von der Müller GmbH. Wir zahlen 120.000 € im Jahr, die "
    "Verlängerung ist am 15. Oktober 2026. Bitte rufen Sie mich morgen um 14:30 Uhr an.",
    "assistant: Ich habe das notiert und melde mich.",
    "2026-10-01",
)
FR = (
    "user: Bonjour, ici Hélène Dubois de L'Oréal. Le contrat vaut 1,5 million d'euros et finit le "
    "15 octobre 2026. J'ai trois enfants et j'habite à Lyon.",
    "2026-10-01",
)
ES = (
    "user: Hola, soy José Núñez de Telefónica. El contrato es de 120.000 euros hasta el 15 de "
    "octubre de 2026. Tengo dos hijos y vivo en Madrid.",
    "2026-10-01",
)
JA = (
    "user: 田中です。契約は12万円で、更新日は2026年10月15日です。Slackで連絡してください。"
    "注文番号はORD-2026-0311です。子供が三人います。",
    "2026-10-01",
)
ZH = (
    "user: 我是王芳，合同金额是十二万元，续约日期是二〇二六年十月十五日。请用WeChat联系我。"
    "我们有25个用户。",
    "2026-10-01",
)
AR = (
    "user: أنا ليلى من شركة Acme. قيمة العقد ١٢٠٬٠٠٠ دولار وتاريخ التجديد 15/10/2026.",
    "2026-10-01",
)
RU = (
    "user: Здравствуйте, это Анна Иванова из Москвы. Договор на 120 000 рублей до 15 октября "
    "2026 года. Пишите на anna@yandex.ru.",
    "2026-10-01",
)

KEPT, DROPPED = True, False
EXAMPLES: list[tuple[tuple[str, ...], str, bool]] = [
    # Numbers, in every spelling.
    (EN, "The account is worth $120,000 a year.", KEPT),
    (EN, "The account is worth 120000 dollars.", KEPT),
    (EN, "The account is worth 120 000 USD.", KEPT),
    (EN, "The account is worth $120k.", KEPT),
    (EN, "The account is worth 0.12 million.", KEPT),
    (EN, "The account is worth one hundred and twenty thousand dollars.", KEPT),
    (EN, "The account is worth $130,000 a year.", DROPPED),
    (EN, "The account is worth $120.", DROPPED),
    (EN, "The account is worth $1.2 million.", DROPPED),
    (EN, "They have a dozen seats.", KEPT),
    (EN, "They have twelve seats.", KEPT),
    (EN, "They have thirteen seats.", DROPPED),
    (EN, "The customer grew by 4.5%.", KEPT),
    (EN, "The customer grew by 45%.", DROPPED),
    (EN, "They now have 1,500,000 users.", KEPT),
    (EN, "The team came 3rd.", KEPT),
    (EN, "The team came fourth.", DROPPED),
    (EN, "There are 25 boxes waiting.", KEPT),
    (EN, "The daughter is 3 years old.", KEPT),
    (EN, "The daughter is 5 years old.", DROPPED),
    # Identifiers, addresses.
    (EN, "Order ord-2026-0311 is late.", KEPT),
    (EN, "Order ORD-2026-0312 is late.", DROPPED),
    (EN, "The board is an A320 with v2.3.1 installed.", KEPT),
    (EN, "The board is an A380.", DROPPED),
    (EN, "The customer can be reached at alice@acme.com.", KEPT),
    (EN, "The customer can be reached at alice@acme.org.", DROPPED),
    (EN, "The order is at https://acme.com/orders?id=7.", KEPT),
    (EN, "The order is at https://acme.com/orders?id=8.", DROPPED),
    # Dates, weekdays, times.
    (EN, "The renewal is on October 15, 2026.", KEPT),
    (EN, "The renewal is on 15/10/2026.", KEPT),
    (EN, "The renewal is on 10/15/2026.", KEPT),
    (EN, "The renewal is on Oct 15th.", KEPT),
    (EN, "The renewal is on Thursday, 15 Oct 2026.", KEPT),
    (EN, "The renewal is in October.", KEPT),
    (EN, "The renewal is in 2026.", KEPT),
    (EN, "The renewal is on October 16, 2026.", DROPPED),
    (EN, "The renewal is on October 15, 2027.", DROPPED),
    (EN, "The renewal is in December.", DROPPED),
    (EN, "A call was planned for October 2, 2026 at 14:30.", KEPT),
    (EN, "A call was planned for October 2, 2026 at 2:30 am.", DROPPED),
    (EN, "The update is due on Friday, October 2.", KEPT),
    (EN, "The update is due on Tuesday.", DROPPED),
    (EN, "The goods ship on November 3, 2026.", KEPT),
    # Names in the middle of a sentence.
    (EN, "The user is Alice Vance of Acme.", KEPT),
    (EN, "The user told Acme's support about the ACME order.", KEPT),
    (EN, "The user's daughter is Zoe.", KEPT),
    (EN, "The user told Bob about the order.", DROPPED),
    (EN, "The user works with Globex.", DROPPED),
    (EN, "Her daughter loves the iPhone.", KEPT),
    (EN, "Her daughter loves the iPad.", DROPPED),
    (EN, "The user has Italian roots.", KEPT),
    (EN, "The user has Spanish roots.", DROPPED),
    (EN, "The goods go to Door Dash in New York.", KEPT),
    (EN, "The goods go to UPS.", DROPPED),
    # Names and other words at its start.
    (EN, "Alice agreed to the deal.", KEPT),
    (EN, "Bob agreed to the deal.", DROPPED),
    (EN, "Globex agreed to the deal.", DROPPED),
    (EN, "The user prefers a call by phone.", KEPT),
    (EN, "Next steps include an update on the order.", KEPT),
    (EN, "Customer asked for an update.", KEPT),
    (EN, "Decision: Escalate the order.", KEPT),
    (EN, "Preferences: contact by mail.", KEPT),
    (EN, "Overall, the conversation was friendly.", KEPT),
    (EN, "Shipping delays worried the customer.", KEPT),
    (EN, "Open Actions:", KEPT),
    (EN, "**Key Decisions**", KEPT),
    (EN, "Mohammed agreed to the deal.", DROPPED),
    (EN, "Grace agreed to the deal.", DROPPED),
    (EN, "Payment terms were left open.", KEPT),
    (EN, "Budget talks follow.", KEPT),
    # German: nouns are not names.
    (DE, "Der Kunde zahlt 120.000 Euro und wünscht eine Verlängerung des Vertrags.", KEPT),
    (DE, "Die Verlängerung des Vertrags ist am 15.10.2026.", KEPT),
    (DE, "Die Verlängerung ist am 16. Oktober 2026.", DROPPED),
    (DE, "Herr Weber bittet um einen Rückruf.", KEPT),
    (DE, "Herr Schmidt bittet um einen Rückruf.", DROPPED),
    (DE, "Er arbeitet bei der Firma Siemens.", DROPPED),
    (DE, "Der Vertrag mit SAP wurde verlängert.", DROPPED),
    (DE, "Kunde bevorzugt Telefonate.", KEPT),
    (DE, "Nächste Schritte: Rückruf am 2. Oktober um 14:30 Uhr.", KEPT),
    # French, Spanish.
    (FR, "L'utilisatrice, Hélène Dubois, travaille chez L'Oréal.", KEPT),
    (FR, "Le contrat de 1 500 000 euros finit le 15/10/2026.", KEPT),
    (FR, "Elle habite à Paris.", DROPPED),
    (FR, "Elle a 3 enfants.", KEPT),
    (FR, "Prochaines étapes : envoyer le contrat.", KEPT),
    (FR, "Le contrat finit le 1er novembre 2026.", DROPPED),
    (ES, "El usuario, José Núñez, trabaja en Telefonica.", KEPT),
    (ES, "El contrato de 120 mil euros termina el 15/10/2026.", KEPT),
    (ES, "Vive en Barcelona con sus 2 hijos.", DROPPED),
    (ES, "Próximos pasos: enviar el contrato.", KEPT),
    (ES, "Pedro aceptó el contrato.", DROPPED),
    # Scripts without capitals, and Cyrillic.
    (JA, "契約金額は120,000円で、更新日は2026/10/15です。", KEPT),
    (JA, "契約金額は13万円です。", DROPPED),
    (JA, "連絡はSlackを希望しています。", KEPT),
    (JA, "連絡はTeamsを希望しています。", DROPPED),
    (JA, "Zoomで一緒に会議をします。", DROPPED),
    (JA, "一緒に注文ORD-2026-0311を確認し、子供3人の話をした。", KEPT),
    (ZH, "合同金额是120000元，2026年10月15日续约。", KEPT),
    (ZH, "合同金额是十三万元。", DROPPED),
    (ZH, "客户一般希望用WeChat联系，有二十五个用户。", KEPT),
    (ZH, "续约日期是10月16日。", DROPPED),
    (AR, "قيمة العقد 120,000 دولار والتجديد في ١٥ أكتوبر ٢٠٢٦.", KEPT),
    (AR, "قيمة العقد ١٣٠٬٠٠٠ دولار.", DROPPED),
    (AR, "تعمل ليلى في شركة Globex.", DROPPED),
    (RU, "Клиентка Анна Иванова живёт в Москве.", KEPT),
    (RU, "Договор с Анной на 120 тыс. рублей действует до 15.10.2026.", KEPT),
    (RU, "Договор подписал Сергей.", DROPPED),
    (RU, "Договор действует до 16 октября 2026 года.", DROPPED),
    (RU, "Клиент просит писать на anna@yandex.ru.", KEPT),
    (RU, "Борис согласился с договором.", DROPPED),
]

SOBER = (
    "user: The hall costs 120 000 pounds, twenty thousand less than 380 others on 15 October 2026. "
    "I moved from version 2.3.1 tomorrow.",
    "assistant: Understood, it was on 2026-10-01.",
    "2026-10-01",
)
EXAMPLES += [  # found by reading the code with an enemy's eye
    (SOBER, "The hall costs $120.", DROPPED),
    (SOBER, "The hall costs $0.", DROPPED),
    (SOBER, "The hall has 20 seats.", DROPPED),
    (SOBER, "The user has an A380.", DROPPED),
    (SOBER, "The user runs v2.3.1 now.", KEPT),
    (SOBER, "The user runs v3.2.1 now.", DROPPED),
    (SOBER, "The move is on October 2, 2026.", KEPT),
    (SOBER, "The move is on October 16, 2026.", DROPPED),
    (SOBER, "Dan agreed to the deal.", DROPPED),
    (SOBER, "Don agreed to the deal.", DROPPED),
    (SOBER, "April agreed to the deal.", DROPPED),
]

# Written after the rules were settled: 40 of 46 came out right at first, the others led to changes.
# `CHAT` is typed carelessly, as users do.
CHAT = (
    "user: hi, i'm moving in may to lisbon with my wife Priya. we need the $2.4M loan by 15 March. "
    "my sister lives in Canada. flight BA 117 lands 9am. call 0171 555 1234",
    "assistant: Your ticket TCK-99 is open; I'll email Priya a quote of 1,250.75 EUR on Monday.",
    "2026-02-20 10:00",
)
MARTA = ("Me llamo Marta. Quiero cambiar mi pedido 4521 el lunes.", "2026-03-05")
GIULIA = ("Mi chiamo Giulia, abito a Roma e ho 34 anni.",)
JOAO = ("Sou o João, moro no Porto desde 2019.",)
PIETER = ("Ik ben Pieter uit Utrecht en wil 3 dozen kaas.",)
KOREAN = ("제 이름은 민수이고 10월 15일에 서울에서 만나요.",)
HINDI = ("मेरा नाम रवि है और मुझे १५ किताबें चाहिए।",)
LENA = ("Ich heiße Lena. Das Budget beträgt 3,5 Mio. Euro.", "2026-05-04")
YEN = ("予算は三百五十万円、締切は来週の金曜日です。", "2026-05-04")
FRESH: list[tuple[tuple[str, ...], str, bool]] = [
    (CHAT, "The user is moving to Lisbon in May with their wife Priya.", KEPT),
    (CHAT, "They need a 2.4 million dollar loan by March 15, 2026.", KEPT),
    (CHAT, "They need a $24M loan.", DROPPED),
    (CHAT, "The quote is €1250.75, sent on Monday, February 23, 2026.", KEPT),
    (CHAT, "The quote is €1,250.57.", DROPPED),
    (CHAT, "The user's sister is Canadian.", KEPT),
    (CHAT, "Flight BA117 lands at 9:00 AM.", KEPT),
    (CHAT, "Flight BA118 lands at 9:00 AM.", DROPPED),
    (CHAT, "The user can be called at 01715551234.", KEPT),
    (CHAT, "Ticket TCK-99 remains open and will be followed up by the support team.", KEPT),
    (CHAT, "Priya's quote was discussed with Barclays.", DROPPED),
    (CHAT, "Key facts:\n- Moving to Lisbon (May 2026)\n- Loan: $2.4M", KEPT),
    (CHAT, "The user plans to move to Porto.", DROPPED),
    (CHAT, "The user has 2 children.", DROPPED),
    (CHAT, "Sarah will call back.", DROPPED),
    (CHAT, "Relocation to Lisbon planned.", KEPT),
    (CHAT, "User's wife: Priya.", KEPT),
    (CHAT, "Action items: 1) email quote; 2) follow up on Monday.", KEPT),
    (CHAT, "The user mentioned Tuesday.", DROPPED),
    (CHAT, "Both the loan and the quote matter.", KEPT),
    (CHAT, "No decision was made.", KEPT),
    (CHAT, "Mortgage approval is pending.", KEPT),
    (CHAT, "Immigration paperwork remains open.", KEPT),
    (CHAT, "Dentist visit was mentioned.", KEPT),
    (CHAT, "Lisbon relocation in June.", DROPPED),
    (CHAT, "Microsoft was mentioned.", DROPPED),
    (MARTA, "Marta quiere cambiar el pedido 4521 el lunes 9 de marzo de 2026.", KEPT),
    (MARTA, "La clienta se llama Lucía.", DROPPED),
    (GIULIA, "L'utente Giulia vive a Roma e ha 34 anni.", KEPT),
    (GIULIA, "Giulia vive a Milano.", DROPPED),
    (JOAO, "O usuário João mora no Porto desde 2019.", KEPT),
    (JOAO, "O usuário mora em Lisboa.", DROPPED),
    (PIETER, "Klant Pieter uit Utrecht wil drie dozen kaas.", KEPT),
    (PIETER, "Pieter werkt bij Philips.", DROPPED),
    (KOREAN, "사용자는 10월 15일에 만나기로 했다.", KEPT),
    (KOREAN, "사용자는 10월 16일에 만나기로 했다.", DROPPED),
    (HINDI, "उपयोगकर्ता को 15 किताबें चाहिए।", KEPT),
    (HINDI, "उपयोगकर्ता को 50 किताबें चाहिए।", DROPPED),
    (LENA, "Die Nutzerin heißt Lena und möchte ein Treffen in der Zentrale.", KEPT),
    (LENA, "Die Nutzerin heißt Clara.", DROPPED),
    (LENA, "Das Budget liegt bei 3.500.000 Euro.", KEPT),
    (LENA, "Das Budget liegt bei 35 Mio. Euro.", DROPPED),
    (YEN, "予算は350万円、締切は金曜日。", KEPT),
    (YEN, "予算は530万円。", DROPPED),
]

# What the check gets wrong: the third column is what should happen.
LIMITS: list[tuple[tuple[str, ...], str, bool]] = [
    (EN, "Will agreed to the deal.", DROPPED),  # "will" is a word of the source
    (DE, "Thomas Schulz hat dem Vertrag zugestimmt.", DROPPED),  # may be two German nouns
    (CHAT, "Ella agreed to the deal.", DROPPED),  # Spanish for "she"
    (CHAT, "Kitchen repairs were mentioned.", KEPT),  # may be somebody called Kitchen
    (CHAT, "The user has three things to do.", KEPT),  # true, but counted by the model
    (("We met the United Nations team.",), "The user met the UN.", KEPT),
    (("user: We ordered 12 chairs and 30 desks.",), "The user ordered 30 chairs.", DROPPED),
    (("Mam na imię Anna.",), "Użytkownik powiedział Annie.", KEPT),  # no Polish cases
]

EVERY_EXAMPLE = EXAMPLES + FRESH


@pytest.mark.parametrize(("sources", "sentence", "kept"), EVERY_EXAMPLE)
def test_a_sentence_stays_when_its_source_supports_it(
    sources: tuple[str, ...], sentence: str, kept: bool
) -> None:
    whole = keep_supported(sentence, sources)
    assert (not whole.dropped) is kept
    assert (whole.text == sentence) is kept


@pytest.mark.parametrize(("sources", "sentence", "wanted"), LIMITS)
def test_known_limits_behave_as_they_do_today(
    sources: tuple[str, ...], sentence: str, wanted: bool
) -> None:
    assert (not keep_supported(sentence, sources).dropped) is not wanted


def test_every_example_supports_itself() -> None:
    for sources, sentence, _ in [*EVERY_EXAMPLE, *LIMITS]:
        assert keep_supported(sentence, [*sources, sentence]).dropped == ()


def test_what_is_kept_keeps_its_order_its_lines_and_its_bullets() -> None:
    summary = (
        "## Summary\n\nThe user is Alice. Bob joined. She pays $120,000.\n\n"
        "- Bob calls back. The order is late.\n- Globex agreed.\n- A call was planned."
    )
    assert keep_supported(summary, EN) == Grounded(
        "## Summary\n\nThe user is Alice. She pays $120,000.\n\n"
        "- The order is late.\n- A call was planned.",
        ("Bob joined.", "Bob calls back.", "Globex agreed."),
    )


def test_without_a_source_only_sentences_without_facts_stay() -> None:
    grounded = keep_supported("The user asked for help. It costs $5. She met Bob.", [])
    assert grounded == Grounded("The user asked for help.", ("It costs $5.", "She met Bob."))
    assert keep_supported("", ["x"]) == Grounded("", ())


def test_the_day_of_the_conversation_and_the_speakers_belong_to_the_source() -> None:
    summary = "Caroline and Melanie talked on May 8, 2023 at 13:56."
    session = ["1:56 pm on 8 May, 2023", "Caroline", "Melanie", "hi!"]
    assert keep_supported(summary, session).dropped == ()
    assert keep_supported(summary, session[1:]).dropped == (summary,)


PIECES = [
    "Bob",
    "May",
    "15.",
    "10/11",
    "2026",
    "१२",
    "٣",
    "十万",
    "1,5",
    "e.g.",
    "。",
    "\n- ",
    ". ",
    " ",
    "two",
    "hundred",
    "$1.5M",
    "a@b.co",
    "www.",
    "İ",
    "ﷺ",
    "2:30 pm",
    "A320",
    "\x00",
    "�",
    "(",
    "1) ",
    "Herr ",
    "und ",
    "Анна",
    "-",
]
PROSE = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


@given(PROSE, st.lists(PROSE, max_size=3))
def test_any_text_is_judged_and_every_sentence_kept_or_dropped(
    summary: str, sources: list[str]
) -> None:
    grounded = keep_supported(summary, sources)
    judged = "".join([grounded.text, *grounded.dropped])
    assert len(re.sub(r"\s", "", judged)) <= len(re.sub(r"\s", "", summary))
    assert keep_supported(summary, [*sources, summary]) == keep_supported(
        summary, [summary, *sources]
    )


LOCOMO = Path(__file__).resolve().parents[3] / "shared" / "locomo" / "locomo_dev.json"


def _sessions(sample: dict[str, Any], number: str) -> Iterator[str]:
    talk = sample["conversation"]
    yield from (talk[f"session_{number}_date_time"], talk["speaker_a"], talk["speaker_b"])
    for turn in talk[f"session_{number}"]:
        yield f"{turn['speaker']}: {turn['text']} {turn.get('blip_caption', '')}"


def test_real_summaries_are_supported_by_their_own_session_and_by_no_other() -> None:
    if not LOCOMO.exists():
        pytest.skip("NOT MEASURED on real summaries: ../shared/locomo is not here")
    first, second = json.loads(LOCOMO.read_text(encoding="utf-8"))[:2]
    own = foreign = total = 0
    for sample, other in [(first, second), (second, first)]:
        for key, summary in sample["session_summary"].items():
            number = key.split("_")[1]
            named = [s for s in sentences(summary) if re.search("Caroline|Melanie|Jon|Gina", s)]
            total += len(named)
            text = "\n".join(named)
            own += len(named) - len(keep_supported(text, [*_sessions(sample, number)]).dropped)
            foreign += len(named) - len(keep_supported(text, [*_sessions(other, number)]).dropped)
    assert total > 150
    assert own / total >= 0.95
    assert foreign / total <= 0.02
