# The wheel of the project and what it needs, from the lock file, in a virtual environment.
FROM python:3.12-slim AS builder
RUN pip install --no-cache-dir "uv>=0.9,<1"
ENV UV_PROJECT_ENVIRONMENT=/opt/service \
    UV_PYTHON_DOWNLOADS=never \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1
WORKDIR /build
# Dependencies change less often than code: their layer comes first and is kept.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-install-project --extra openai --extra files --extra otel
COPY README.md LICENSE ./
COPY app ./app
COPY ingest ./ingest
RUN uv sync --frozen --no-editable --extra openai --extra files --extra otel


FROM python:3.12-slim
LABEL org.opencontainers.image.title="conversational-rag" \
      org.opencontainers.image.description="Conversational RAG with episodic memory" \
      org.opencontainers.image.licenses="Apache-2.0"
# The root file system may be read-only: only /data is written, and /tmp by uploads. A new named volume
# takes over its owner; a folder of the host that is mounted there must belong to 10001.
RUN groupadd --system --gid 10001 service \
    && useradd --system --uid 10001 --gid service --home-dir /data --no-create-home service \
    && install --directory --owner=service --group=service /data
COPY --from=builder /opt/service /opt/service
ENV PATH=/opt/service/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOST=0.0.0.0 \
    PORT=8000 \
    DATA_DIR=/data
# By number: an orchestrator that wants nobody to be root can't read a name.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/health/live', timeout=4)"]
CMD ["python", "-m", "app", "serve"]
