"""Stored texts that read like instructions, for review. Touches: `quarantine`.

A text is looked at in the transaction that stores it. A release is of this text only: a changed one
is looked at anew. What is blocked stays so, whatever its text becomes, until somebody decides
otherwise or the text is deleted.
"""

from __future__ import annotations

from app.quarantine.marks import BLOCKED as BLOCKED
from app.quarantine.marks import NOT_RELEASED as NOT_RELEASED
from app.quarantine.marks import Kind as Kind
from app.quarantine.marks import Looked as Looked
from app.quarantine.marks import Mark as Mark
from app.quarantine.marks import State as State
from app.quarantine.marks import block_ref as block_ref
from app.quarantine.marks import drop as drop
from app.quarantine.marks import is_withheld as is_withheld
from app.quarantine.marks import item_ref as item_ref
from app.quarantine.marks import look_at as look_at
from app.quarantine.marks import mark_of as mark_of
from app.quarantine.marks import note as note
from app.quarantine.marks import shown as shown
from app.quarantine.marks import withheld as withheld
