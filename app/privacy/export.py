"""One user and all that is held about them, as one JSON document. Touches: every table."""
