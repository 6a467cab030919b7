# shellcheck shell=bash
# docker - a private Docker daemon, and base images made from Debian's packages: source it after rig.sh.
#
#   docker_start; docker_base debian:trixie-slim trixie; docker_servers
#
# For root. The daemon has its own folders, socket and bridge, lets the host's firewall alone but for one rule for that
# bridge, and ends with the rig, and with it all that it ran. DOCKER_HOST is exported, so that "docker" and "compose" are
# its clients. No registry is asked: what an image of a public name needs is built here under that name.

# shellcheck source=tests/lib/debian.sh
. "$RIG_SOURCE/tests/lib/debian.sh"

DOCKER_DIR=$RIG_DIR/docker
DOCKER_PROJECT=$RIG_DIR/project # see compose
DOCKER_BRIDGE=oo-$$
DOCKER_PID=

# docker_bridge -I|-D : the bridge's own traffic passes, whatever a firewall or another Docker forbids.
docker_bridge() {
  iptables "$1" FORWARD -i "$DOCKER_BRIDGE" -o "$DOCKER_BRIDGE" -j ACCEPT >>"$RIG_DIR/iptables.log" 2>&1
}

docker_install() {
  packages_install docker.io docker-compose mmdebstrap iptables || return 1
  command -v docker >/dev/null || packages_install docker-cli # which newer Debians keep apart
}

docker_start() {
  [ "$(id -u)" = 0 ] || rig_die "root is needed, to start a Docker daemon"
  docker_install || rig_die "Docker is installed"
  mkdir -p "$DOCKER_DIR/client"
  export DOCKER_HOST=unix://$DOCKER_DIR/socket DOCKER_CONFIG=$DOCKER_DIR/client
  # The classic builder: the other one is a package of its own.
  export DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
  trap docker_end EXIT
  dockerd --data-root="$DOCKER_DIR/data" --exec-root="$DOCKER_DIR/exec" \
    --pidfile="$DOCKER_DIR/pid" --host="$DOCKER_HOST" --bridge=none --iptables=false --ip-forward=false \
    --default-address-pool="base=198.18.$((RANDOM % 256)).0/24,size=24" \
    --containerd-namespace=onlyonce --containerd-plugins-namespace=onlyonce-plugins >"$RIG_DIR/dockerd.log" 2>&1 </dev/null &
  DOCKER_PID=$!
  rig_wait_until "docker version || ! kill -0 $DOCKER_PID" 30
  docker version >"$RIG_DIR/docker-version.log" 2>&1 || rig_die "the Docker daemon answers"
  docker_bridge -I || rig_die "iptables lets the containers' bridge through"
}

docker_end() {
  local code=$? containers
  if [ "$BASHPID" = "$RIG_OWNER" ] && [ -n "$DOCKER_PID" ]; then
    trap '' INT TERM
    if [ "$code" != 0 ] || [ "$RIG_FAILED" != 0 ]; then
      docker_logs
    fi
    mapfile -t containers < <(docker ps -aq)
    [ ${#containers[@]} = 0 ] || docker rm -fv "${containers[@]}" >/dev/null
    docker network prune -f >/dev/null # the bridges of this daemon's networks
    rig_stop_pid "$DOCKER_PID" 30
    docker_mounts | xargs -r umount
    docker_bridge -D
  fi
  (exit "$code")
  rig_end
}

# What the daemon leaves mounted, the innermost first.
docker_mounts() {
  awk -v dir="$DOCKER_DIR/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r
}

# What each container said, among the rig's logs.
docker_logs() {
  local name
  for name in $(docker ps -a --format '{{.Names}}'); do
    docker logs "$name" >"$RIG_DIR/container-$name.log" 2>&1
  done
}

# ---- images ----

# docker_base IMAGE SUITE : the smallest Debian, which reaches its packages as this machine does.
docker_base() {
  debian_tar "$DOCKER_DIR/base.tar" "$2" >"$RIG_DIR/mmdebstrap.log" 2>&1 || rig_die "mmdebstrap makes a Debian $2"
  docker import "$DOCKER_DIR/base.tar" "$1" >"$RIG_DIR/import.log" 2>&1 || rig_die "the image $1 is imported"
  rm "$DOCKER_DIR/base.tar"
}

# docker_make IMAGE : builds it from the Dockerfile on the standard input.
docker_make() {
  docker build --network host --build-arg http_proxy --build-arg https_proxy -t "$1" - >"$RIG_DIR/build-${1//[:\/]/-}.log" 2>&1 ||
    rig_die "the image $1 is built"
}

# docker_named SERVICE : the name that compose.yaml gives to the image of a service.
docker_named() {
  compose config | "$RIG_BUILD/tests/json_of_yaml" | jq -r --arg service "$1" '.services[$service].image'
}

# The servers of compose.yaml, which understand what compose.yaml sets.
docker_servers() {
  docker_make servers <<'END'
FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends rabbitmq-server redis-server prometheus \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && rabbitmq-plugins --offline enable rabbitmq_management \
 && install -d -o redis /data \
 && install -d -o prometheus /prometheus
END
  docker_make "$(docker_named rabbitmq)" <<'END'
FROM servers
ENV RABBITMQ_LOGS=-
USER rabbitmq
CMD ["/usr/lib/rabbitmq/bin/rabbitmq-server"]
END
  docker_make "$(docker_named redis)" <<'END'
FROM servers
WORKDIR /data
USER redis
CMD ["redis-server"]
END
  docker_make "$(docker_named prometheus)" <<'END'
FROM servers
USER prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
END
}

# ---- compose ----

# A copy of what the image and compose.yaml are made of, to edit at will. The daemon connects containers with each other
# alone, so building needs the host's network, and no name server answers for names of others: nobody shall wait for it.
docker_project() {
  mkdir -p "$DOCKER_PROJECT"
  (cd "$RIG_SOURCE" && cp -a Dockerfile .dockerignore LICENSE CMakeLists.txt cmake src config compose.yaml "$DOCKER_PROJECT") ||
    rig_die "the project is copied"
  cat >"$DOCKER_PROJECT/host.yaml" <<END
services:
  relay:
    build:
      context: .
      network: host
    dns_opt: ["timeout:1", "attempts:1"]
networks:
  default:
    driver_opts:
      com.docker.network.bridge.name: $DOCKER_BRIDGE
END
}

# compose ARGUMENT... : the new "docker compose" or the old docker-compose, whichever is there.
compose() {
  local command=(docker-compose)
  ! docker compose version >/dev/null 2>&1 || command=(docker compose)
  (cd "$DOCKER_PROJECT" && "${command[@]}" -p onlyonce -f compose.yaml -f host.yaml --profile monitoring "$@")
}

# container SERVICE : the id of its container.
container() {
  docker ps -aq --filter "label=com.docker.compose.project=onlyonce" --filter "label=com.docker.compose.service=$1"
}

# state SERVICE FIELD : .Running, .ExitCode, .Health.Status, ...
state() {
  docker inspect -f "{{.State$2}}" "$(container "$1")"
}
