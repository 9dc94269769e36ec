"""Rate limits of keys and users. Touches: Redis, where it is there."""
