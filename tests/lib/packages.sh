# shellcheck shell=bash
# packages - installs the Debian packages that are missing.

package_is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# packages_install PACKAGE... : installs those that are missing, or says what to install.
packages_install() {
  local package log missing=() as_root=() ok=true
  if ! command -v dpkg-query >/dev/null; then
    echo "this is not Debian; its packages are needed, or their like: $*" >&2
    return 1
  fi
  for package; do
    package_is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "these packages are missing, and only root or sudo can install them: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}"
  log=$(mktemp)
  # One at a time: of two tests that ask at once, apt-get would refuse the second.
  {
    flock 9 && "${as_root[@]}" apt-get -q update &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 </dev/null 9<"${BASH_SOURCE[0]}" || ok=false
  if ! $ok; then
    tail -n 20 "$log" >&2
    echo "could not install ${missing[*]}" >&2
  fi
  rm -f "$log"
  $ok
}

packages_for_build() {
  packages_install gcc make cmake pkg-config libc6-dev librabbitmq-dev libhiredis-dev libyaml-dev \
    libcjson-dev libssl-dev libpq-dev libsqlite3-dev libmicrohttpd-dev libcmocka-dev
}

packages_for_servers() {
  packages_install rabbitmq-server redis-server redis-tools postgresql sqlite3 openssl
}

# valgrind counts the instructions of a message.
packages_for_tests() {
  packages_install amqp-tools jq nodejs socat curl openssl prometheus valgrind
}

# What looks at the code, beyond a compiler.
packages_for_lint() {
  packages_install clang clang-format clang-tidy shellcheck
}

# Other people's clients. A node that did not come from Debian has its npm with it.
packages_for_foreign() {
  packages_install python3-pika && { command -v npm >/dev/null || packages_install npm; }
}

# npm comes with some builds of nodejs.
packages_for_page() {
  local missing=()
  command -v npm >/dev/null || missing=(npm)
  packages_install chromium nodejs curl "${missing[@]}"
}
