# onlyonce in a container, and nothing beside it: the first stage builds the program and gathers in /image what it
# needs to run; the second is that alone, without a shell or a package manager.
#
#   docker build -t onlyonce .          # --label org.opencontainers.image.revision=... adds what only you know
#   docker run --read-only -v ./onlyonce.yaml:/etc/onlyonce/onlyonce.yaml:ro onlyonce
#
# The configuration is read from /etc/onlyonce/onlyonce.yaml. A store in SQLite belongs on a volume, mounted at
# /var/lib/onlyonce; nothing else is written. The user is 65532, which has to be able to read the configuration.

FROM debian:trixie-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      gcc make cmake pkg-config libc6-dev ca-certificates \
      librabbitmq-dev libhiredis-dev libyaml-dev libcjson-dev libmicrohttpd-dev libssl-dev \
      libpq-dev libsqlite3-dev \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
WORKDIR /source
COPY . .
RUN cmake -S . -B /build -DCMAKE_BUILD_TYPE=Release -DONLYONCE_TESTS=OFF \
 && cmake --build /build --parallel \
 && install -D --strip /build/onlyonce /image/usr/bin/onlyonce

# The libraries, where the program looks for them, and the loader; the licences of all that is in the image; the
# certificates of the public authorities; the user; how names are resolved.
RUN set -eu; \
    mkdir /store; \
    cd /image; \
    mkdir -p etc/onlyonce etc/ssl/certs usr/share/doc/onlyonce var/lib; \
    ldd usr/bin/onlyonce >/libraries; \
    if grep "not found" /libraries; then exit 1; fi; \
    sed -n 's/^[^/]*\(\/[^ ]*\) .*/\1/p' /libraries >/files; \
    xargs -a /files cp -L --parents -t .; \
    xargs -a /files realpath >/paths; \
    xargs -a /paths dpkg-query -S >/packages; \
    sed 's|:.*||; s|.*|/usr/share/doc/&/copyright|' /packages | sort -u >/licences; \
    xargs -a /licences cp -L --parents -t .; \
    cp /source/LICENSE usr/share/doc/onlyonce/copyright; \
    cp -L /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/; \
    echo 'onlyonce:x:65532:65532:onlyonce:/var/lib/onlyonce:/nonexistent' >etc/passwd; \
    echo 'onlyonce:x:65532:' >etc/group; \
    echo 'hosts: files dns' >etc/nsswitch.conf

FROM scratch
# The version of CMakeLists.txt.
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="onlyonce" \
      org.opencontainers.image.description="Forwards the first RabbitMQ message of each key and drops its duplicates" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /image/ /
COPY --from=build --chown=65532:65532 /store /var/lib/onlyonce
# Where OpenSSL looks for the certificates unless the configuration names others.
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# A number, so that Kubernetes can see that it is not root's.
USER 65532:65532
STOPSIGNAL SIGTERM
# It asks at admin.listen, which has to be set, at 127.0.0.1:8080 for instance; else it fails, and its output says so.
HEALTHCHECK --interval=30s --timeout=10s --start-period=10s --retries=3 CMD ["/usr/bin/onlyonce", "health"]
ENTRYPOINT ["/usr/bin/onlyonce"]
CMD ["run"]
