"""A hundred strings with what is to be found in them, written before the detector was.

«KIND|value» marks a finding. A secret's span is the value, without the word before it; of a
URL it is `user:password`; of a private key the whole block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.redact import Finding

_MARK = re.compile(r"«(SECRET|CARD|IBAN|SSN|EMAIL|PHONE|IP)\|([^»]*)»")

WITH_FINDINGS = [
    "My card is «CARD|4111 1111 1111 1111», please charge it today.",
    "card no. «CARD|5555-5555-5555-4444» exp 09/29 cvc 123",
    "Amex «CARD|378282246310005» or «CARD|3782 822463 10005», same thing",
    '{"pan": "«CARD|4012888888881881»", "amount": 129.50}',
    "Ich zahle mit «CARD|2223003122003222».",
    "two cards: «CARD|6011111111111117»,«CARD|3530111333300000»",
    "Karte: «CARD|5105 1051 0510 5100»\nGültig bis 11/2028",
    "Please refund order 2026-000123 to «CARD|4242424242424242», 59,90 EUR",
    "Überweise an «IBAN|DE89 3704 0044 0532 0130 00» bitte",
    "IBAN: «IBAN|GB82WEST12345698765432»",
    "mon iban est «IBAN|FR14 2004 1010 0505 0001 3M02 606», merci",
    "betaal naar «IBAN|NL91ABNA0417164300» t.n.v. Jansen",
    "name;iban;amount\nKeller;«IBAN|CH93 0076 2011 6238 5295 7»;120,00",
    "Konto «IBAN|AT611904300234573201», BIC BKAUATWW",
    "Wpłać na «IBAN|PL61 1090 1014 0000 0712 1981 2874».",
    '{"iban":"«IBAN|ES9121000418450200051332»","sepa":true}',
    "lower case works as well: «IBAN|de89370400440532013000»",
    "Send it to «IBAN|NO93 8601 1117 947» or «IBAN|BE68 5390 0754 7034»",
    "My social security number is «SSN|219-09-9999».",
    "SSN: «SSN|457555462»",
    "Employee Ann Smith, ssn «SSN|078-05-1121», hired 2021-03-04",
    "social security no «SSN|536 22 8734» for the form",
    "Write to «EMAIL|ada.lovelace@example.org» please.",
    "Ada <«EMAIL|ada@analytical-engine.co.uk»>, Bo <«EMAIL|bo+news@sub.example.com»>",
    "mailto:«EMAIL|sales@example.de»?subject=Offer%202026-000123",
    "Schreib mir an «EMAIL|jürgen.groß@müller.de»!",
    "email,phone\n«EMAIL|o'brien@example.ie»,«PHONE|+353 1 234 5678»",
    "https://example.com/unsubscribe?email=«EMAIL|kim_lee@example.kr»&id=42",
    '{"from": "«EMAIL|FIRST.LAST@EXAMPLE.COM»", "ip": "«IP|203.0.113.77»"}',
    "Reach me at «EMAIL|x@y.io» or «EMAIL|team@startup.ai»\n",
    "Call me at «PHONE|+1 (415) 555-2671» after five.",
    "Call me: «PHONE|(212) 736-5000»",
    "My number's «PHONE|650-253-0000»; leave a message",
    "Tel. «PHONE|+49 30 901820» (Frau Keller)",
    "Ruf mich unter «PHONE|+49 (0)30 901820» an",
    "WhatsApp «PHONE|+44 20 7031 3000», office «PHONE|+33 1 42 68 53 00»",
    "phone: «PHONE|6502530000»",
    "0:00 «PHONE|+81 3-6384-9000»\n0:30 «PHONE|+55 11 2395-8400»",
    "tel:«PHONE|+16502530000»",
    "The server at «IP|198.51.100.23» is down, «IP|198.51.100.24» too",
    "ping «IP|2001:db8:85a3::8a2e:370:7334» fails since noon",
    'client «IP|192.0.2.146» - - [12/Mar/2026:10:11:12] "GET /v1.2.3/items"',
    "http://«IP|10.20.30.40»:8080/status and http://[«IP|fe80::1ff:fe23:4567:890a»]/",
    "Use key «SECRET|sk-proj-Zx81kQpL0vT7mNb3RfYwHs29» for the demo",
    "export GROQ_API_KEY=«SECRET|gsk_a8Fj2LqPz0XvW7tRm4NcY1bK»",
    "curl -H 'Authorization: Bearer «SECRET|eyJhbGciOiJIUzI1NiJ9."
    "eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlX2hlcmU»'",
    "postgresql://«SECRET|rag:Sup3rGeheim»@db.internal:5432/rag",
    "The password is: «SECRET|Tr0ub4dor&3xyz», don't tell anyone",
    "aws: «SECRET|AKIAQ3EGRTZ7WPLM5K2N» in eu-central-1",
    "-- \n«SECRET|-----BEGIN RSA PRIVATE KEY-----\n"
    "MIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\n"
    "KUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwEC\n-----END RSA PRIVATE KEY-----»\nthat is it",
]

WITHOUT_OR_MIXED = [
    "Where is order 2026-000123? It was due on 2026-03-14.",
    "Invoice 4711-2026-0815 over 1.234.567,89 EUR, paid on 14.03.2026 at 10:15:30",
    "Upgrade from 4.1.2 to 4.1.2.3 broke the build; 4.2.0.1 works",
    "See section 4.1.2.3 and chapter 10.0.2.1 of the manual.",
    "ISBN 978-3-16-148410-0 and ISBN 0-306-40615-2",
    "isbn: 9783161484100, EAN 4006381333931",
    "GTIN 04012345678901 in stock: 12",
    "id 123e4567-e89b-12d3-a456-426614174000 not found",
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709 fixes it, see af317cf",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "The place is 52.520008, 13.404954 (N 52° 31' 12\")",
    "Part 650-253-000A fits, PN-555-0199-22 doesn't",
    "thanks @ada and @bo_smith, cc @team-core",
    "open report_2026-03-14_v2.1.pdf and foo@2x.png",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "Plate B-AD 1234, VIN WVWZZZ1JZXW000001",
    "Tracking 1Z999AA10123456784 with UPS; DHL 00340434161094042557",
    "Price: $1,299.00, was $1,499.00, saves 200.00 (13.3 %)",
    "The 2024-2026 budget: 12 000 000 000 for 450 000 people",
    "Sold 1234567890123 units? No, 1,234,567.",
    "The card ends in 4242, not in 1881.",
    "Card number 4111 1111 1111 1112 is mistyped",
    "IBAN DE89 3704 0044 0532 0130 01 has a wrong check digit",
    "The number 000-12-3456 can't be a social security number, nor 666-12-3456",
    "customer 457555462 asked again",
    "Timestamps 1709543210 and 1709543210123 differ by unit",
    "npm install left-pad@1.3.0 @types/node@20.11.5",
    "git clone git@github.com:example/project.git",
    "ratio 16:9, score 3:2, at 10:15, verse 3:16, MAC 00:1A:2B:3C:4D:5E",
    "std::vector<int> a::b::c and Foo::bar",
    "pip install numpy==1.26.4 torch==2.2.1.0",
    "Firefox/121.0.0.0 Chrome/120.0.6099.109 Safari/537.36",
    "He said the password was wrong and asked for a new password.",
    "password: ******** (hidden), api_key = <your key here>",
    "The secret of success: patience. Token: a unit of text.",
    "Model sk-7 is a skateboard; disk-utility-tools-v2 and risk-averse-investors-only",
    "task-1234567890abcdef is in review, desk-lamp-adjustable too",
    "Bearer of good news: the shipment arrived.",
    "Meeting room 030-2, floor 4, seats 10-12, Tue 14:00-15:30",
    "Article 12345-678-90, batch 20260314-001, lot 7",
    "Order numbers: 100200300, 100200301, 100200302",
    "ZIP 94103-1234, PLZ 10115, postcode SW1A 1AA",
    "Spins 33 45 78 rpm; sizes 38 40 42 44 46 48",
    "Euler: 2.718281828459045, pi 3.14159265358979",
    "RFC 2822, ISO 8601, DIN EN 60529, IEC 61000-4-2",
    "The meter reads 004512 378 now, 004498 211 in May",
    "customs no. DE 8503 0012 2026, tax 29/815/08150",
    "Order 2026-000777 for «EMAIL|pia@example.net» costs 49.90, shipped 2026-05-01.",
    "v4.1.2.3 runs on «IP|172.16.254.1», build 20260314.2",
    "Invoice 2026-000456, call «PHONE|+1 650-253-0000» about ISBN 978-3-16-148410-0",
]


def parsed(marked: str) -> tuple[str, list[Finding]]:
    """Return a string without its marks, and what they marked."""
    text, findings, last = "", [], 0
    for mark in _MARK.finditer(marked):
        text += marked[last : mark.start()]
        findings.append(Finding(len(text), len(text) + len(mark[2]), mark[1]))  # type: ignore[arg-type]
        text, last = text + mark[2], mark.end()
    return text + marked[last:], findings


def labelled() -> Iterator[tuple[str, list[Finding]]]:
    return map(parsed, [*WITH_FINDINGS, *WITHOUT_OR_MIXED])
