"""An exported user, stored again. Touches: every table."""
