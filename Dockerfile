# The image of qring, from a checkout:
#   docker build -t qring .          or  buildah bud -t qring .
# Three stages: build (compiles, and collects the files of the image in /image), test (a few unit tests; the programs start with these files
# alone), run (two programs, their shared libraries, CA certificates, licences, list of contents). The same base, packages and sources give
# the same bytes: SOURCE_DATE_EPOCH and `buildah bud --timestamp` fix the times (`make image` passes both).
ARG BASE=debian:13-slim

FROM ${BASE} AS build
ENV DEBIAN_FRONTEND=noninteractive
WORKDIR /src
COPY tests/deps tests/deps
RUN apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev make ca-certificates \
    && tests/deps install build && rm -rf /var/lib/apt/lists/*
COPY Makefile Makefile
COPY proto proto
COPY deploy/jobs deploy/jobs
COPY lib lib
COPY cmd cmd
RUN make -j"$(nproc)" all
COPY LICENSE LICENSE
COPY tests/image tests/image
ARG SOURCE_DATE_EPOCH=0
# Another value rebuilds the following layers instead of using the cache.
ARG AGAIN=
RUN tests/image/gather /image

FROM build AS test
COPY tests tests
ARG TESTS="test_base_limits test_exact_integer test_sim_golden"
RUN set -e; for t in ${TESTS}; do make -s B=build/release "build/release/tests/unit/$t"; "build/release/tests/unit/$t"; done
RUN for p in qring qringd; do chroot --userspec=65532:65532 /image "/usr/bin/$p" --version || exit 1; done

FROM scratch AS run
# These affect the digest, so they must be arguments of this stage for the cache.
ARG SOURCE_DATE_EPOCH=0
ARG VERSION=0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="qring" \
      org.opencontainers.image.description="Quantum-classical training on many pods, with the same bits at any size" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=test /image /
ENV PATH=/usr/bin
USER 65532:65532
WORKDIR /tmp
EXPOSE 2222 2224 8080
ENTRYPOINT ["/usr/bin/qringd"]
