"""One user and all that is held about them, erased. Touches: every table."""
