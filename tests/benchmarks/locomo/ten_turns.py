"""A chat of ten turns of ordinary length, and what its memory holds. Touches: the service.

Made up for this measurement: a customer and an assistant talk about a move and an order.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.benchmarks.client import Client
from tests.benchmarks.locomo.answers import found_fact, prompt_tokens

TALKER, WRITER = "talker", "memory-writer"  # the models' names tell what a request is for
USER = "ten turns"

TALK = (
    (
        "Hi, I'm Nora Lindqvist. We moved from Lisbon to Porto in March, and I'd like to get "
        "our office account in order before the end of the quarter. Can you help me with that?",
        "Of course, Nora, and welcome to Porto. I can go through the account with you step by "
        "step: the delivery address, the people who may order, and the open invoices. Which of "
        "these would you like to begin with?",
    ),
    (
        "Let's start with the address. It's Rua das Flores 112, second floor, 4050-265 Porto. "
        "Deliveries only work in the morning, because the gate is closed after two o'clock.",
        "I have noted Rua das Flores 112, second floor, 4050-265 Porto, with deliveries in the "
        "morning before two. Orders that are already on their way keep the old address unless "
        "you ask the carrier to change it.",
    ),
    (
        "That's fine, there is only order ORD-2291 on its way and my brother Jonas can pick it "
        "up in Lisbon. He still has the keys to the old office until June.",
        "Then ORD-2291 stays as it is and Jonas picks it up in Lisbon. Carriers usually ask "
        "for a name and the order number, so he should have both with him when he gets there.",
    ),
    (
        "Good. Now the people: besides me, Amara Okafor may place orders up to 500 euros. "
        "Anything above that needs my approval, also when I'm on holiday.",
        "Understood: Amara Okafor may order up to 500 euros, and everything above waits for "
        "your approval. When you are away, those orders stay open until you have a look at "
        "them.",
    ),
    (
        "We also have to change what we drink here. Half of the team is allergic to nuts, so "
        "please no almond or hazelnut products any more, and I prefer oat milk to soy.",
        "I will leave out everything with almonds or hazelnuts and prefer oat milk to soy in "
        "the suggestions. Some of the biscuits you ordered last year contain traces of nuts as "
        "well, so we may want to look for others.",
    ),
    (
        "Yes, please find others. Something savoury would be nice, the Swedish crispbread from "
        "our Christmas order was popular with everybody.",
        "The crispbread comes in rye and in wheat, both without nuts. A box of twelve packs is "
        "38 euros, and it keeps for nine months, so one box every two months should be enough "
        "for a team of your size.",
    ),
    (
        "Then put one box of the rye crispbread on the list for every second month, from May "
        "on. And what about the invoice from February, wasn't there a discount missing?",
        "The February invoice over 1,240 euros was written without the five percent that your "
        "contract gives you from the tenth order on. I would ask the billing team for a "
        "corrected one, which usually takes about a week.",
    ),
    (
        "Please do that. I won't pay it before the corrected one is here, and tell them to "
        "send it to invoices@lindqvist.example, not to me personally.",
        "I will pass on that the payment waits for the corrected invoice and that it goes to "
        "invoices@lindqvist.example. Is there anything in your contract you would like to "
        "change while we are at it?",
    ),
    (
        "The contract runs until 30 September, and I'm thinking about the smaller plan, since "
        "we are only eleven people now. Remind me to decide about it at the end of July.",
        "The smaller plan covers up to fifteen people and costs 89 euros a month instead of "
        "140. A change has to be announced two months ahead, so the end of July is indeed the "
        "last moment to decide.",
    ),
    (
        "Perfect. One last thing: I'm learning Portuguese with a teacher on Tuesday "
        "afternoons, so don't call me then. Mail is always fine.",
        "No calls on Tuesday afternoons, then, and mail whenever something comes up. Enjoy the "
        "lessons, and let me know when the corrected invoice has arrived.",
    ),
)

SUMMARIES = (
    "Nora Lindqvist moved with her office from Lisbon to Porto in March. Deliveries go to Rua "
    "das Flores 112, second floor, 4050-265 Porto, in the morning before two o'clock. Her "
    "brother Jonas picks up order ORD-2291 in Lisbon. Amara Okafor may order up to 500 euros; "
    "anything above needs Nora's approval. No almond or hazelnut products, since half of the "
    "team is allergic to nuts; Nora prefers oat milk to soy.",
    "From May on, one box of rye crispbread comes every second month. The February invoice "
    "lacks a discount; Nora won't pay before the corrected one is at "
    "invoices@lindqvist.example. The contract runs until 30 September, and at the end of July "
    "she wants to decide about the smaller plan for eleven people. No calls on Tuesday "
    "afternoons, when she learns Portuguese.",
)

# statement, the number of the turn, the quote
NOTED = (
    ("Nora Lindqvist moved from Lisbon to Porto.", 1, "We moved from Lisbon to Porto in March"),
    ("The office is at Rua das Flores 112 in Porto.", 2, "It's Rua das Flores 112, second floor"),
    ("Deliveries only work in the morning.", 2, "Deliveries only work in the morning"),
    ("Her brother Jonas picks up ORD-2291.", 3, "my brother Jonas can pick it up in Lisbon"),
    ("Amara Okafor may order up to 500 euros.", 4, "Amara Okafor may place orders up to 500 euros"),
    ("Half of the team is allergic to nuts.", 5, "Half of the team is allergic to nuts"),
    ("Nora prefers oat milk to soy.", 5, "I prefer oat milk to soy"),
    ("Crispbread comes every second month from May.", 7, "one box of the rye crispbread"),
    ("Nora waits for a corrected invoice.", 8, "I won't pay it before the corrected one is here"),
    ("The contract runs until 30 September.", 9, "The contract runs until 30 September"),
    ("Nora decides about the plan in July.", 9, "Remind me to decide about it at the end of July"),
    ("Nora learns Portuguese on Tuesday afternoons.", 10, "I'm learning Portuguese with a teacher"),
)


class Memory:
    """The model of this chat: it replies, and writes memory; counts the tokens of the latter."""

    def __init__(self) -> None:
        self.prompt_tokens: list[int] = []

    def reply(self, body: dict[str, Any]) -> str:
        """Return what was answered to the last of the turns that a prompt shows."""
        return TALK[_shown(body)[-1] - 1][1]

    def is_asked(self, body: dict[str, Any]) -> bool:
        return bool(_shown(body))

    def write(self, body: dict[str, Any]) -> str:
        """Answer a checkpoint with what its messages say; a follow-up is left as it is."""
        if "<transcript" not in str(body["messages"][-1]["content"]):
            return json.dumps({"question": "", "route": "hybrid"})
        self.prompt_tokens.append(prompt_tokens(body))
        shown = _shown(body)
        facts = [
            found_fact("user", statement, 2 * turn - 1, quote)
            for statement, turn, quote in NOTED
            if turn in shown
        ]
        summary = " ".join(SUMMARIES if shown[-1] > len(TALK) // 2 else SUMMARIES[:1])
        return json.dumps({"summary": summary, "facts": facts, "entities": [], "relations": []})


def _shown(body: dict[str, Any]) -> list[int]:
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    return [turn for turn, (question, _) in enumerate(TALK, 1) if question in prompt]


async def chat(client: Client) -> None:
    """Go through the chat and close it. Raises `RuntimeError` if its summary fails."""
    session_id = "ten-turns"
    for question, _ in TALK:
        body = {"message": question, "session_id": session_id, "user_id": USER}
        await client.post("/chat", body)
        while (await client.get("/health/ready"))["summaries"]["pending"]:
            await asyncio.sleep(0.02)  # who types leaves time for a checkpoint
    closed = await client.post(f"/sessions/{session_id}/close", {})
    if closed["state"] != "closed":
        raise RuntimeError(f"the chat of ten turns was not summarised: {closed['pending']}")
