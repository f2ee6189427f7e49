# An image for Dask workers, nightly jobs and the explorer. It runs as a user without rights:
#   docker build -t corpusmill .
#   docker run -v "$PWD:/work" --user "$(id -u)" corpusmill corpusmill run quickstart
FROM python:3.12-slim AS build
COPY . /src
RUN pip wheel --no-deps --wheel-dir /dist /src

FROM python:3.12-slim
LABEL org.opencontainers.image.title="corpusmill" \
      org.opencontainers.image.description="Topics, factors and embeddings from corpora that do not fit in memory, on Dask" \
      org.opencontainers.image.source="https://github.com/corpusmill/corpusmill" \
      org.opencontainers.image.licenses="BSD-3-Clause"
# The object stores and clusters that the programs in it use, such as gcs or s3,kubernetes.
ARG EXTRAS=s3
COPY --from=build /dist /dist
RUN pip install --no-cache-dir "$(echo /dist/*.whl)[$EXTRAS]"

# Kernels are compiled for the processor that builds the image, and again on nodes of another type. For the same results on
# all nodes, add ENV lines for the narrowest vectors among them (docs/explanation/reproducibility.md).
ENV NUMBA_CACHE_DIR=/var/cache/corpusmill
# Numba keeps only kernels in folders that it can write to, and Kubernetes may choose any user.
RUN mkdir /work "$NUMBA_CACHE_DIR" && corpusmill doctor && chmod -R a+rwX /work "$NUMBA_CACHE_DIR"

USER 65534:65534
ENV HOME=/work
WORKDIR /work
# Set HEALTH_PORT to a port that the program listens on: 8788 for a worker of the Dask operator, or the --port of `explore`.
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
    "import os, socket; port = os.environ.get('HEALTH_PORT'); port and socket.create_connection(('127.0.0.1', int(port)), 9)"]
# There is no ENTRYPOINT, because the Dask operator calls dask.
CMD ["corpusmill", "--help"]
