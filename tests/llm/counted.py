"""Texts with the tokens that o200k_base makes of them, counted once with its own vocabulary."""

from __future__ import annotations

import base64

_BYTES = bytes((n * n * 37 + n * 11 + 5) % 256 for n in range(300))

COUNTED: dict[str, tuple[str, int]] = {
    "english": ("I would rather be contacted by e-mail, because I am travelling a lot this", 16),
    "customer": ("Company Acme Corp operates in the Manufacturing industry. The account", 12),
    "german": ("Ich möchte lieber per E-Mail kontaktiert werden, weil ich diesen Monat viel", 16),
    "french": ("Je préfère être contacté par courriel, car je voyage beaucoup ce mois-ci et", 17),
    "spanish": (
        "Prefiero que me contacten por correo electrónico, porque este mes viajo mucho",
        15,
    ),
    "polish": ("Wolałbym kontakt mailowy, ponieważ w tym miesiącu dużo podróżuję i nie mogę", 22),
    "finnish": ("Haluaisin mieluummin, että minuun otetaan yhteyttä sähköpostitse, koska", 19),
    "turkish": ("Bu ay çok seyahat ettiğim ve telefonlara cevap veremediğim için benimle", 18),
    "swahili": (
        "Ningependelea kuwasiliana nami kwa barua pepe kwa sababu mwezi huu ninasafiri",
        21,
    ),
    "vietnamese": (
        "Tôi muốn được liên hệ qua thư điện tử vì tháng này tôi đi công tác nhiều và",
        19,
    ),
    "russian": ("Я предпочитаю, чтобы со мной связывались по электронной почте,", 16),
    "greek": ("Προτιμώ να επικοινωνείτε μαζί μου μέσω ηλεκτρονικού ταχυδρομείου, επειδή", 24),
    "arabic": ("أفضل أن يتم التواصل معي عبر البريد الإلكتروني لأنني أسافر كثيرا هذا", 14),
    "hebrew": ('אני מעדיף שיצרו איתי קשר בדוא"ל כי אני נוסע הרבה החודש ולא יכול לענות לטלפון.', 28),
    "hindi": ("मैं ईमेल से संपर्क किया जाना पसंद करता हूँ क्योंकि इस महीने मैं बहुत यात्रा", 16),
    "tamil": ("இந்த மாதம் நான் அதிகம் பயணம் செய்வதால் தொலைபேசியில் பேச முடியாது, எனவே", 22),
    "thai": ("ฉันอยากให้ติดต่อทางอีเมลเพราะเดือนนี้ฉันเดินทางบ่อยและรับโทรศัพท์ไม่ได้", 27),
    "japanese": (
        "今月は出張が多く電話に出られないので、メールで連絡していただきたいです。契約更新の会議を再来週に変更していただけますか。",
        44,
    ),
    "chinese": (
        "我这个月经常出差，不方便接电话，请通过电子邮件联系我。能不能把续约会议推迟到下下周？去年我搬到了上海，我女儿九月份开始上",
        43,
    ),
    "traditional": (
        "我這個月經常出差，不方便接電話，請透過電子郵件聯絡我。能不能把續約會議延後到下下週？去年我搬到了臺北，女兒九月開始上小學",
        52,
    ),
    "korean": (
        "이번 달에는 출장이 많아서 전화를 받을 수 없으니 이메일로 연락해 주시면 좋겠습니다.",
        23,
    ),
    "amharic": ("በዚህ ወር ብዙ ስለምጓዝ ስልክ መመለስ ስለማልችል በኢሜይል ብታገኙኝ እመርጣለሁ። ባለፈው ዓመት ወደ አዲስ አበባ", 128),
    "typos": ("helo i cant loggin to teh dashbord pls hlp asap its vry urgnt!!! my", 20),
    "capitals": (
        "PLEASE CALL ME BACK AS SOON AS POSSIBLE, THE CONTRACT RENEWAL IS OVERDUE AND",
        22,
    ),
    "sql": ("SELECT m.session_id, count(*) AS n, max(m.created_at) FROM messages m JOIN", 19),
    "emoji": ("omg yes!! 😂😂😂 can't wait 🎉🎉 see you at 8pm 👍🏽 love you ❤️ 🥰 lol", 29),
    "names": ("Nguyễn Thị Ánh, Krzysztof Wiśniewski, Þórbjörg Guðmundsdóttir, Xóchitl", 29),
    "chemistry": ("N-(4-hydroxyphenyl)ethanamide; 2-(4-isobutylphenyl)propanoic acid;", 29),
    "code": (
        "def chunks(text: str, *, size: int = 1_000) -> list[str]:\n"
        "    return [text[at : at + size] for at in range(0, len(text), size)]\n",
        43,
    ),
    "json": ('{"company": "Acme Corp", "contract_value": 120000, "renewal": "2026-10-15"}', 28),
    "compact json": (
        '[{"id":48213,"tags":["vip","eu"],"active":true,"score":0.8371,"next":null}]',
        29,
    ),
    "table": (
        "| Name | Value | Date |\n|------|------:|:----:|\n| Acme | 120000 | 2026-10-15 |\n",
        33,
    ),
    "log": (
        "2026-05-04T09:12:44.123Z ERROR [worker-3] job 9f2c1e failed (UpstreamTimeout: 30.0s)",
        41,
    ),
    "address": ("https://www.example.com/a/b-c?utm_source=newsletter&id=48213#frag", 20),
    "uuid": ("8c4f1f3e-27a9-4a6e-9b11-5d0c8f2e7a31", 33),
    "base64": (base64.b64encode(_BYTES).decode(), 286),
    "hex": (_BYTES[:150].hex(), 170),
    "digits": ("0123456789" * 50, 167),
    "spaced digits": ("1 2 3 4 5 6 7 8 9 0\n" * 20, 400),
    "telephone": ("+49 (0)30 901820-113, 0171/2345678\n" * 5, 100),
    "spaces": (" " * 500, 5),
    "line ends": ("\n" * 500, 32),
    "tabs": ("\t" * 500, 31),
    "short lines": ("a\n\n\nb    c\t\td\n  e\n" * 20, 220),
    "one letter": ("a" * 500, 63),
    "a rare letter": ("z" * 500, 250),
    "an accent": ("é" * 500, 500),
    "a foreign letter": ("ж" * 500, 500),
    "a long no": ("noooooooooooooooo " * 20, 81),
    "dashes": ("-" * 500, 8),
    "exclamations": ("!" * 500, 32),
    "joined emoji": ("👩‍👩‍👧‍👦👍🏽🇩🇪❤️‍🔥🫠🫶🏿" * 10, 290),
    "box": ("┌─┬─┐│ │ │├─┼─┤└─┴─┘" * 10, 260),
    "mathematics": ("∀x∈ℝ: ∑ᵢ₌₁ⁿ xᵢ² ≥ 0 ⇒ ∫₀^∞ e^{−x²}dx = √π/2", 45),
}
