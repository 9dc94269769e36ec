"""Forty strings more, written before the detector was run on them, and never tuned for."""

from __future__ import annotations

from collections.abc import Iterator

from app.redact import Finding
from tests.redact.labelled import parsed

UNSEEN = [
    "Bitte die Visa «CARD|4539 1488 0343 6467» belasten, Prüfziffer 737.",
    "cc=«CARD|5425233430109903»&exp=0427",
    "Diners «CARD|3056 930902 5904» expired",
    "My debit card number, «CARD|6759649826438453», was declined twice!",
    "IBAN «IBAN|SE45 5000 0000 0583 9825 7466» och BIC SWEDSESS",
    "bonifico su «IBAN|IT60X0542811101000000123456» entro venerdì",
    "«IBAN|PT50 0002 0123 1234 5678 9015 4»\t250,00",
    "ssn on file: «SSN|123-45-6789»; DOB 1980-05-17",
    "applicant's Social Security: «SSN|321 54 9876»",
    "cc: «EMAIL|maria.garcía@correo.example.es»; bcc: «EMAIL|ops-team+alerts@mail.example.io»",
    "user «EMAIL|j.r.r.tolkien@books.example» wrote: hi",
    "['«EMAIL|a1@b2.co»', '«EMAIL|c3@d4.org»']",
    "(see «EMAIL|help@example.travel»)",
    "Fax «PHONE|+43 1 58858-0», mobile «PHONE|+43 664 1234567»",
    "text me at «PHONE|415.555.2671» or «PHONE|(415) 555-2672»",
    "«PHONE|+91 98765 43210» is my number in Pune",
    "ring the office: «PHONE|+61 2 9374 4000» ext later",
    "Cell «PHONE|1-800-356-9377»",
    "failed login from «IP|185.220.101.34» port 52344 ssh2",
    "X-Forwarded-For: «IP|70.41.3.18», «IP|150.172.238.178»",
    "listen on «IP|2a00:1450:4001:81b::200e» please",
    "OPENAI_API_KEY=«SECRET|sk-T9wLx2Vb7nQe4Rz8Yk1Jm5Hc3Gd6Fa»",
    "github token «SECRET|ghp_R4kV9xTq2LmZ7bNc3WpYs8HdJf6GaEu1Ti5o» leaked in the log",
    "passwort = «SECRET|Sommer2025!x» bitte ändern",
    "mongodb+srv://«SECRET|reader:pL9-xk_22»@cluster0.example.net/app",
    '{"access_token": "«SECRET|8f14e45fceea167a5a36dedd4bea2543»", "expires_in": 3600}',
    "Slack hook «SECRET|xoxb-218731921-Ab3Cd5Ef7Gh9Ij1Kl3Mn5Op» set",
    "Our fiscal year 2025/26 ended at 1,204,300.50 (up 12.4%).",
    "Flight LH 441 on 2026-07-19 at 13:55, seat 24A, booking X7K2PQ",
    "Kubernetes 1.29.3.1 on nodes v2.10.4.7",
    "Ticket #4539148803 and case 00123456-2026 are linked",
    "ISBN-13: 978-0-306-40615-7; DOI 10.1000/182; ISSN 2049-3630",
    "bins 10-20-30-40, lot 555-1234, shelf 12-34-5678",
    "SELECT * FROM a WHERE id IN (1000000001, 1000000002)",
    "color #ff8800, hash 9e107d9d372bb6826bd81d3542a419d6",
    "See @media and @import rules; user@localhost is a shell prompt",
    "EORI DE123456789012345, VAT GB 123 4567 89, tax id 12/345/67890",
    "The code word is patience and the token ring network is old.",
    "Latitude 48.137154, altitude 519 m, time 2026-11-30T16:40:36.123456Z",
    "Range 192.168 is private; mask /24; port 5432; 3.14.15 isn't an address",
]


def unseen() -> Iterator[tuple[str, list[Finding]]]:
    return map(parsed, UNSEEN)
