# The image of qring, from a checkout:
#   docker build -t qring .          or  buildah bud -t qring .
#   docker buildx build --platform linux/amd64,linux/arm64 .          cross-compiles the other architecture, without emulation
# Three stages: build (compiles, and collects the files of the image in /image), test (a few unit tests; the programs start with these files
# alone; nothing of another architecture), run (two programs, their shared libraries, CA certificates, licences, list of contents). The same
# base, packages and sources give the same bytes: SOURCE_DATE_EPOCH and `buildah bud --timestamp` fix the times (`make image` passes both).
ARG BASE=debian:13-slim

FROM --platform=$BUILDPLATFORM ${BASE} AS build
WORKDIR /src
ARG TARGETARCH
COPY tests/deps tests/deps
COPY tests/image/toolchain tests/image/toolchain
RUN tests/image/toolchain "$TARGETARCH" install
COPY Makefile Makefile
COPY proto proto
COPY deploy/jobs deploy/jobs
COPY lib lib
COPY cmd cmd
RUN tests/image/toolchain "$TARGETARCH" make -j"$(nproc)" all
COPY LICENSE LICENSE
COPY tests/image tests/image
ARG SOURCE_DATE_EPOCH=0
# Another value rebuilds the following layers instead of using the cache.
ARG AGAIN=
RUN tests/image/toolchain "$TARGETARCH" tests/image/gather /image

FROM build AS test
ARG TARGETARCH
COPY tests tests
ARG TESTS="test_base_limits test_exact_integer test_sim_golden"
RUN set -e; [ "${TARGETARCH:-$(dpkg --print-architecture)}" = "$(dpkg --print-architecture)" ] || exit 0; \
    for t in ${TESTS}; do make -s B=build/release "build/release/tests/unit/$t"; "build/release/tests/unit/$t"; done; \
    for p in qring qringd; do chroot --userspec=65532:65532 /image "/usr/bin/$p" --version; done

FROM scratch AS run
ARG TARGETARCH
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
