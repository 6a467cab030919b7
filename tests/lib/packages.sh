# shellcheck shell=bash
# packages - installs the Debian packages that are missing.

# What the program and its tools are built from, and the servers that it runs against.
PACKAGES_BUILD=(gcc make cmake pkg-config libc6-dev librabbitmq-dev libhiredis-dev libyaml-dev
  libcjson-dev libssl-dev libcmocka-dev)
PACKAGES_SERVERS=(rabbitmq-server redis-server redis-tools)
PACKAGES_LINT=(clang clang-format clang-tidy shellcheck)

package_is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# packages_install PACKAGE... : installs those that are missing; says so on stderr if it cannot.
packages_install() {
  local package missing=() as_root=()
  if ! command -v dpkg-query >/dev/null; then
    echo "this is no Debian system; please install the counterparts of: $*" >&2
    return 1
  fi
  for package; do
    package_is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "not root, and no sudo; please install: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}"
  if ! { "${as_root[@]}" apt-get -q update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -q install -y --no-install-recommends "${missing[@]}"; } >"$PACKAGES_LOG" 2>&1 </dev/null; then
    cat "$PACKAGES_LOG" >&2
    echo "could not install: ${missing[*]}" >&2
    return 1
  fi
}
