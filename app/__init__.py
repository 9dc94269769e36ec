"""Conversational RAG with episodic memory: a FastAPI microservice."""

__version__ = "0.1.0"
