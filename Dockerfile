# flowdebate with its HTTP and MCP servers and its workers; docs/deployment.md says how to run it.
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements requirements
RUN python -m venv /opt/build && \
    /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt && \
    python -m venv --without-pip /opt/flowdebate && \
    /opt/build/bin/pip --python /opt/flowdebate install --no-cache-dir --require-hashes --only-binary :all: -r requirements/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . && \
    /opt/build/bin/pip --python /opt/flowdebate install --no-cache-dir --no-deps dist/*.whl

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/flowdebate flowdebate
COPY --from=build /opt/flowdebate /opt/flowdebate
ENV PATH=/opt/flowdebate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    FLOWDEBATE_STORE=/var/lib/flowdebate/runs.sqlite3
USER 10001
WORKDIR /app
VOLUME /var/lib/flowdebate
EXPOSE 8377
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8377/api/v1/health', timeout=4)"]
CMD ["flowdebate", "serve", "--host", "0.0.0.0", "--token-file", "/run/secrets/token"]
