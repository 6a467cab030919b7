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

DEBIAN13_SUITE=trixie

# shellcheck disable=SC2016 # apt-get expands it
debian13_archives() {
  apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Label: Debian" "Component: main"
}

# debian13_mirror : the address of the archive, as /etc/apt says.
debian13_mirror() {
  local mirror
  mirror=$(debian13_archives)
  if [ -z "$mirror" ]; then
    apt-get -q update >/dev/null
    mirror=$(debian13_archives)
  fi
  echo "${mirror%%$'\n'*}"
  [ -n "$mirror" ]
}

# debian13_settle ROOT : what this machine knows of its network, and no package starts a server.
debian13_settle() {
  cp -L /etc/resolv.conf /etc/hosts "$1/etc/" &&
    apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries)' >"$1/etc/apt/apt.conf.d/90outside"
  printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"
}

# debian13_copy ROOT : a clean copy of this checkout, as /onlyonce.
debian13_copy() {
  rm -rf "$1/onlyonce" && mkdir "$1/onlyonce" &&
    tar -c --exclude=./build --exclude=./.git . | tar -x -C "$1/onlyonce"
}

# debian13_make FOLDER
debian13_make() {
  local root=$1/root mirror
  if [ "$(id -u)" != 0 ]; then
    echo "only root can make and enter a Debian 13" >&2
    return 1
  fi
  packages_install debootstrap || return 1
  if ! [ -e "$1/complete" ]; then
    if ! mirror=$(debian13_mirror); then
      echo "/etc/apt names no mirror of Debian" >&2
      return 1
    fi
    rm -rf "$root" && mkdir -p "$root" &&
      debootstrap --variant=minbase "$DEBIAN13_SUITE" "$root" "$mirror" && touch "$1/complete" || return 1
  fi
  debian13_settle "$root" && debian13_copy "$root"
}

# debian13_run FOLDER COMMAND... : in /onlyonce.
debian13_run() {
  local root=$1/root
  shift
  # shellcheck disable=SC2016 # the inner shell expands it
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child -- sh -euc '
    root=$1 tmp=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount --bind "$tmp" "$root/tmp"
    chroot "$root" sh -c "cd /onlyonce && exec \"\$@\"" sh "$@" || exit' sh "$root" "${TMPDIR:-/tmp}" \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
}
