# shellcheck shell=bash
# debian13 - a Debian 13 inside this machine, for testing with its libraries and servers: source packages.sh first.
#
#   debian13_make FOLDER        with a clean copy of this checkout, as /onlyonce
#   debian13_run FOLDER COMMAND...
#
# Needs root. The folder is made once, from the mirror that this machine's apt uses, and kept. What runs in it has
# mounts and process ids of its own, and ends with this shell: whatever way the end comes, nothing is left mounted or
# running.
# The network is shared, and so is the folder for temporary files, in which tests reserve their ports.

# shellcheck source=tests/lib/debian.sh
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

DEBIAN13_SUITE=trixie

# debian13_settle ROOT : what this machine knows of its network, and no package starts a server.
debian13_settle() {
  cp -L /etc/resolv.conf /etc/hosts "$1/etc/" &&
    debian_apt_settings >"$1/etc/apt/apt.conf.d/90outside"
  printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"
}

# debian13_make FOLDER
debian13_make() {
  local root=$1/root mirror
  debian_is_root && packages_install debootstrap || return 1
  if ! [ -e "$1/complete" ]; then
    mirror=$(debian_mirror) || return 1
    rm -rf "$root" && mkdir -p "$root" &&
      debootstrap --variant=minbase "$DEBIAN13_SUITE" "$root" "$mirror" && touch "$1/complete" || return 1
  fi
  debian13_settle "$root" && debian_copy "$root"
}

# debian13_run FOLDER COMMAND... : in /onlyonce.
debian13_run() {
  local root=$1/root
  shift
  debian_run "$root" "$@"
}
