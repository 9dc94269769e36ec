"""The words that the tables of `tables` are made of. For tests."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


def _names(text: str) -> list[str]:
    return text.split(";")


COMPANY_STARTS = _words(
    "Halberd Kestrel Brightwater Ironbridge Marlowe Redfern Silverpine Tamarind Vantage "
    "Wexford Ashgrove Blackthorn Copperfield Dunmore Eastgate Foxglove Greyfriars Hartwell "
    "Juniper Kingsley Larkspur Meridian Northgate Oakhurst Penrose Quillan Rosewood "
    "Stonebridge Thornbury Umberfield Valemont Westbrook Yarrow Zephyr Altamira Bellavista "
    "Cordova Delmar Estrella Fontaine"
)
COMPANY_ENDS = _words(
    "Logistics Foods Energy Robotics Textiles Pharma Media Holdings Group Partners Systems "
    "Works Trading Labs Marine Optics Farms Motors Paper Glass Travel Capital Studios Brewing "
    "Ceramics"
)
INDUSTRIES = _words(
    "logistics food energy machinery textile pharmaceutical media insurance construction "
    "retail education hospitality"
)
CITIES = _words(
    "Berlin Hamburg Lyon Rotterdam Gdansk Porto Valencia Turin Graz Antwerp Aarhus Bergen "
    "Tampere Brno Leeds Cork Basel Utrecht Nantes Malmö"
)
AGENTS = _names(
    "Alice Vance;Bob Stone;Carla Mendes;Derek Oduya;Elif Kaya;Farid Haddad;"
    "Greta Lindqvist;Hiro Tanabe;Ines Moreau;Jonas Pohl;Kavya Rao;Liam Doyle"
)
ADJECTIVES = _words(
    "compact folding heavy-duty insulated lightweight magnetic outdoor portable quiet "
    "rechargeable stackable waterproof wireless vintage slim"
)
MATERIALS = _words(
    "oak steel ceramic bamboo copper glass leather cotton aluminium walnut cork wool"
)
CATEGORIES = {
    "lamp": "lighting",
    "lantern": "lighting",
    "kettle": "kitchen",
    "teapot": "kitchen",
    "mug": "kitchen",
    "desk": "furniture",
    "stool": "furniture",
    "shelf": "furniture",
    "backpack": "travel",
    "bottle": "travel",
    "speaker": "electronics",
    "clock": "electronics",
    "vase": "decoration",
    "blanket": "textiles",
    "rug": "textiles",
}
THINGS = list(CATEGORIES)
DEPARTMENTS = {
    "Engineering": [
        "data engineer",
        "backend developer",
        "site reliability engineer",
        "QA analyst",
    ],
    "Finance": ["controller", "payroll accountant", "tax advisor", "auditor"],
    "Sales": ["key account manager", "sales trainer", "tender specialist"],
    "Legal": ["contract lawyer", "privacy officer", "patent attorney"],
    "Operations": ["warehouse supervisor", "fleet planner", "customs agent", "buyer"],
    "People": ["recruiter", "works psychologist", "benefits adviser"],
    "Marketing": ["brand designer", "copywriter", "event planner"],
}
FIRST_NAMES = _words(
    "Amara Anton Beatriz Boris Chiara Dmitri Ebba Emeka Fatima Gustav Hana Ivan Jelena Kofi "
    "Lucia Magnus Nadia Oskar Priya Quentin Rosa Sanjay Tomasz Ulrike Viktor Wanda Xavier "
    "Yusuf Zofia Noor"
)
SURNAMES = _names(
    "Abernathy;Achebe;Adeyemi;Ahlgren;Albescu;Almqvist;Antonelli;Arroyo;Bachmann;"
    "Baranov;Barzani;Beaumont;Bielak;Birkeland;Bjarnason;Bosch;Brandão;Bukowska;"
    "Cabrera;Castellano;Cavendish;Chaudhry;Chmiel;Cisneros;Dąbrowski;Dalgaard;"
    "Danjuma;Delacroix;Desrosiers;Dragović;Dubois;Eberhardt;Echeverria;Ekström;"
    "Eriksen;Falkenberg;Fernandes;Fiorentino;Fitzgerald;Fujimoto;Gagnon;Galloway;"
    "Georgiou;Ghorbani;Grabowski;Grünwald;Gutierrez;Haugland;Hernandez;Hofstetter;"
    "Horváth;Ibrahimović;Iglesias;Ishikawa;Ivanova;Jankowski;Jaramillo;Jørgensen;"
    "Kaczmarek;Kalogeropoulos;Karimi;Keskinen;Kowalczyk;Krüger;Kuznetsov;Lachance;"
    "Langford;Lefebvre;Lindholm;Łukasik;MacAllister;Mbeki;Mendelsohn;Mikkelsen;"
    "Mokoena;Montgomery;Müller;Nakamura;Nasser;Nieminen;Novotná;Nwosu;O'Brien;"
    "O'Connell;Okafor;Okonkwo;Olszewski;Ortega;Osei;Papadakis;Pavlov;Petrosyan;"
    "Pettersson;Popescu;Quispe;Rahman;Rasmussen;Rautio;Reinhardt;Ribeiro;Rossetti;"
    "Saarinen;Salazar;Schäfer;Schwarzkopf;Sepúlveda;Shevchenko;Sobczak;Söderberg;"
    "Stavros;Szabó;Takahashi;Thibodeaux;Tkachenko;Tørnes;Uchida;Valdivia;"
    "Vandenberg;Vasquez;Vukašinović;Wasilewska;Weatherby;Wiśniewski;Yamaguchi;"
    "Yilmaz;Zawadzki;Zielinski;Žižka;van der Meer;De Luca"
)

# What a ticket says, and how somebody asks for it who does not remember the words.
PROBLEMS = [
    (
        "The parcel arrived with a crushed corner and the goods inside were broken.",
        "Which complaint of {} is about something damaged in transit?",
    ),
    (
        "The invoice shows the wrong VAT rate and has to be corrected.",
        "Did {} report a mistake with the tax on a bill?",
    ),
    (
        "Users cannot log in after the password reset mail.",
        "{} had people locked out of their accounts, which ticket is that?",
    ),
    (
        "The delivery is two weeks late and nobody answers the phone.",
        "{} is still waiting for a shipment, is there a ticket?",
    ),
    (
        "The exported report is empty for the last quarter.",
        "{}: no data in the download of the figures",
    ),
    (
        "The wrong colour was delivered and they want an exchange.",
        "Where did we send {} an item in another colour than they wanted?",
    ),
    (
        "The mobile app crashes when a photo is attached.",
        "What did {} say about the phone application closing by itself with pictures?",
    ),
    (
        "They were charged twice for the same order on their credit card.",
        "Was there a double payment at {}?",
    ),
    (
        "A refund was promised in January and has not been paid.",
        "Does {} still wait for their money back?",
    ),
    ("The battery gets very hot while charging.", "Did {} complain about something overheating?"),
    (
        "The assembly instructions are missing from the box.",
        "{} got no manual with the package, find the ticket",
    ),
    ("They ask for a discount because of the large volume.", "Has {} asked for cheaper prices?"),
    (
        "The address on the account has to be changed after a move.",
        "{} relocated and wants its records updated",
    ),
    (
        "The search on the website returns no results for umlauts.",
        "What was wrong with finding things on the web page for {}?",
    ),
    ("They want to cancel the subscription at the end of the year.", "Does {} want to leave us?"),
    ("The lid does not close properly and water leaks out.", "Which leak did {} tell us about?"),
    (
        "The API answers with error 502 during the night.",
        "What about the interface failing at night at {}?",
    ),
    (
        "Their new colleague needs training for the planning tool.",
        "Who at {} has to be taught how to use the scheduling software?",
    ),
    (
        "The colour of the fabric fades after the first wash.",
        "{} says the cloth loses its dye in the laundry",
    ),
    (
        "The driver left the pallet in the rain in front of the gate.",
        "What happened to the pallet of {} that got wet?",
    ),
]

# A topic, its rule, and a question that says it in other words.
POLICIES = [
    (
        "Returns",
        "Goods can be sent back within 30 days if they are unused and in the original box.",
        "How long do I have if I want to give something back?",
    ),
    (
        "Remote work",
        "Staff may work from home up to three days a week after their probation.",
        "Can I do my job from my living room?",
    ),
    (
        "Travel expenses",
        "Train tickets are reimbursed in second class, flights only above 600 km.",
        "Will the company pay for my plane?",
    ),
    (
        "Parental leave",
        "Both parents get sixteen weeks of paid time off after a birth.",
        "I'm having a baby, how much time do I get off?",
    ),
    (
        "Sick leave",
        "A doctor's note is needed from the third day of an illness.",
        "When do I need a medical certificate?",
    ),
    (
        "Passwords",
        "Passphrases have at least fourteen characters and are changed when they leak.",
        "How long must my login secret be?",
    ),
    (
        "Visitors",
        "Guests register at the reception and wear a badge at all times.",
        "A friend wants to see our premises, what must they do?",
    ),
    (
        "Warranty",
        "Electrical appliances are covered for 24 months against faults of manufacture.",
        "My kettle broke after a year, is that covered?",
    ),
    (
        "Late payment",
        "After two reminders we charge interest of eight percent a year.",
        "What happens if a customer doesn't pay the bill on time?",
    ),
    (
        "Data protection",
        "Personal data of applicants is erased six months after a rejection.",
        "How long are the CVs of people we turned down kept?",
    ),
    (
        "Gifts",
        "Presents above 50 euros from suppliers have to be declined.",
        "A vendor sent me an expensive bottle of wine, may I keep it?",
    ),
    (
        "Overtime",
        "Extra hours are compensated with free time within the same quarter.",
        "What do I get for staying late?",
    ),
    (
        "Company cars",
        "Vehicles are leased for four years and only with an electric engine.",
        "Can I have a diesel as my business vehicle?",
    ),
    (
        "Fire drill",
        "The alarm is tested on the first Monday of each month at 10 o'clock.",
        "Why does the siren go off at the beginning of the month?",
    ),
    (
        "Bicycle parking",
        "Bikes are locked in the shed behind building C.",
        "Where do I leave my bike?",
    ),
    (
        "Shipping abroad",
        "Parcels to Switzerland and Norway need a customs declaration.",
        "Which papers are needed to send a package outside the EU?",
    ),
    (
        "Bulk orders",
        "From 100 pieces on there is a rebate of twelve percent.",
        "Is it cheaper to buy a large quantity?",
    ),
    (
        "Confidentiality",
        "Prototypes must not be photographed or shown to outsiders.",
        "Am I allowed to post a picture of the new model?",
    ),
    (
        "Canteen",
        "Lunch is served from 11:30 to 14:00, with a vegan dish every day.",
        "Is there something to eat without animal products at noon?",
    ),
    (
        "Hardware",
        "Laptops are replaced every four years; broken screens are repaired at once.",
        "How old does my computer get before I receive a new one?",
    ),
    (
        "Training budget",
        "Everybody may spend 1,500 euros a year on courses and books.",
        "How much money is there for my further education?",
    ),
    (
        "Pets",
        "Dogs are welcome on Fridays if nobody in the room objects.",
        "May I bring my puppy to the office?",
    ),
    (
        "Holidays",
        "Vacation of more than two weeks is agreed three months ahead.",
        "How early must I apply for a long vacation?",
    ),
    (
        "Whistleblowing",
        "Misconduct can be reported anonymously to an external ombudsman.",
        "How can I tell someone about fraud without giving my name?",
    ),
    (
        "Recycling",
        "Used cartridges and batteries go into the red boxes by the printers.",
        "Where do I throw away empty ink?",
    ),
    (
        "Minimum order",
        "Orders below 40 euros are charged a handling fee of five euros.",
        "Does it cost extra if I only buy a little?",
    ),
    (
        "Meeting rooms",
        "Rooms are released again if nobody shows up for fifteen minutes.",
        "What if I booked a room and come late?",
    ),
    (
        "Repairs",
        "Spare parts are kept for seven years after a model is discontinued.",
        "Can you still fix an old product that is no longer sold?",
    ),
    (
        "Price changes",
        "Customers are told of new prices six weeks before they apply.",
        "How much notice is given before things get more expensive?",
    ),
    (
        "Complaints",
        "Every complaint is answered within two working days by a person.",
        "How soon will someone react if I'm unhappy?",
    ),
]

GERMAN_CUSTOMERS = [
    {
        "Kundennummer": f"K{700 + n}",
        "Firma": firma,
        "Stadt": stadt,
        "Betreuer": wer,
        "Verlängerung": f"{1 + n % 28:02d}.{1 + n % 12:02d}.2027",
    }
    for n, (firma, stadt, wer) in enumerate(
        [
            ("Bäckerei Großmann", "Köln", "Jürgen Weiß"),
            ("Möbelhaus Krämer", "Nürnberg", "Sabine Löffler"),
            ("Gärtnerei Blümel", "Saarbrücken", "Jürgen Weiß"),
            ("Schlosserei Strauß", "Düsseldorf", "Anke Böhm"),
            ("Weingut Rößler", "Würzburg", "Sabine Löffler"),
            ("Spedition Fährmann", "Lübeck", "Anke Böhm"),
            ("Druckerei Schönfeld", "Göttingen", "Uwe Götz"),
            ("Optik Nägele", "Tübingen", "Uwe Götz"),
            ("Brauhaus Zwölfer", "Münster", "Jürgen Weiß"),
            ("Fahrrad Hübner", "Osnabrück", "Anke Böhm"),
        ]
    )
]
JAPANESE_CUSTOMERS = [
    {
        "顧客番号": f"J{300 + n}",
        "会社名": name,
        "都市": city,
        "担当者": who,
        "契約更新日": f"2027-{1 + n:02d}-15",
    }
    for n, (name, city, who) in enumerate(
        [
            ("青山製作所", "東京", "田中美咲"),
            ("北斗食品", "札幌", "佐藤健一"),
            ("富士見印刷", "静岡", "鈴木陽子"),
            ("大和電機", "大阪", "高橋大輔"),
            ("若葉建設", "名古屋", "伊藤直樹"),
            ("瀬戸内海運", "広島", "渡辺千夏"),
        ]
    )
]
