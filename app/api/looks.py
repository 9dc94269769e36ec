"""Looks of an admin into a person's things, noted before they are answered. Touches: audit."""

from __future__ import annotations

from app.erased import pseudonym
from app.identity import Caller
from app.wiring import Runtime


async def note_look(runtime: Runtime, caller: Caller, action: str, owner: str | None) -> None:
    """Note that an admin reads what is `owner`'s; None: everybody's.

    A developer alone at the machine reads what is there without a note.
    """
    if caller.role == "admin" and not caller.is_local:
        subject = None if owner is None else pseudonym(caller.tenant_id, owner)
        await runtime.audit.write(caller.actor, action, subject=subject)
