# onlyonce in a container: built in one stage, run in another as an ordinary user.
# The configuration is expected at /etc/onlyonce/onlyonce.yaml, mounted read-only. A store in SQLite
# belongs on a volume, mounted at /var/lib/onlyonce.

FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      gcc make cmake pkg-config libc6-dev \
      librabbitmq-dev libhiredis-dev libyaml-dev libcjson-dev libmicrohttpd-dev libssl-dev \
      libpq-dev libsqlite3-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cmake -S . -B /build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DONLYONCE_TESTS=OFF
RUN cmake --build /build --parallel
RUN cmake --install /build --prefix /installed --strip

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      librabbitmq4 libhiredis0.14 libyaml-0-2 libcjson1 libmicrohttpd12 libssl3 libpq5 libsqlite3-0 \
      ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin onlyonce \
 && install -d -o onlyonce -g onlyonce -m 750 /var/lib/onlyonce
COPY --from=build /installed/bin/onlyonce /usr/bin/onlyonce
USER onlyonce
ENTRYPOINT ["onlyonce"]
CMD ["run"]
