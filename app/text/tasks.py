"""What a chat client asks for itself, and nobody else did, by how it begins. Touches nothing."""

from __future__ import annotations

import re

# Open WebUI's prompt for a question about files begins as its tasks do, but it is a question.
TASK = re.compile(r"\s*### Task:(?!\s*Respond to the user)", re.IGNORECASE)
