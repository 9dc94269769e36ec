"""Stored texts that read like instructions, for review. Touches: `quarantine`."""
