"""Conversational RAG with episodic memory: a FastAPI microservice."""

import os

__version__ = "0.1.0"

# Read when numpy is imported. Threads that share a product as small as ours (10,000 x 384) wait for
# one another several times as long as one of them takes; requests have threads of their own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
