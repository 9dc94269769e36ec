"""Thresholds from a store's own data. Touches: SQL, the index, the embedder; only reads."""
