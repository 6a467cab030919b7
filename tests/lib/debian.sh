# shellcheck shell=bash
# debian - other Debians inside this machine: source packages.sh first, and rig.sh for those that are booted. For root.
#
#   debian_tar FILE SUITE [PACKAGE...]      makes a system, if FILE is not there yet
#   debian_unpack FILE ROOT
#   debian_run ROOT COMMAND...              in it, by chroot; apt works
#   debian_boot ROOT; debian_in COMMAND...; debian_halt      with systemd as process 1, and a network of its own
#
# What runs in them has mounts and process ids of its own, and ends with this shell: whatever way the end comes, nothing
# is left mounted or running.

DEBIAN_ENVIRONMENT=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
  DEBIAN_FRONTEND=noninteractive)

# shellcheck disable=SC2016 # apt-get expands it
debian_archives() {
  apt-get indextargets --format '$(REPO_URI)' "Created-By: Packages" "Label: Debian" "Component: main"
}

# debian_mirror : the address of the archive, as /etc/apt says.
debian_mirror() {
  local mirror
  mirror=$(debian_archives)
  if [ -z "$mirror" ]; then
    apt-get -q update >/dev/null
    mirror=$(debian_archives)
  fi
  echo "${mirror%%$'\n'*}"
  if [ -z "$mirror" ]; then
    echo "/etc/apt names no mirror of Debian" >&2
    return 1
  fi
}

debian_is_root() {
  [ "$(id -u)" = 0 ] || {
    echo "only root can make and enter another Debian" >&2
    return 1
  }
}

# What this machine's apt knows of its network.
debian_apt_settings() {
  apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries)'
}

# ---- Systems in files ----

debian_tar() {
  local file=$1 suite=$2 mirror options include=()
  shift 2
  [ ! -e "$file" ] || return 0
  debian_is_root && packages_install mmdebstrap && mirror=$(debian_mirror) || return 1
  mapfile -t options < <(debian_apt_settings | sed 's/^/--aptopt=/')
  [ $# = 0 ] || include=("--include=$(IFS=,; echo "$*")")
  mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io "${options[@]}" "${include[@]}" \
    "$suite" "$file.part.tar" "$mirror" && mv "$file.part.tar" "$file"
}

debian_unpack() {
  rm -rf "$2" && mkdir -p "$2" && tar -x -C "$2" -f "$1" && cp -L /etc/resolv.conf /etc/hosts "$2/etc/"
}

# debian_copy ROOT : a clean copy of this checkout, as /onlyonce.
debian_copy() {
  rm -rf "$1/onlyonce" && mkdir "$1/onlyonce" &&
    tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$1/onlyonce"
}

# ---- By chroot ----

debian_run() {
  local root=$1
  shift
  # shellcheck disable=SC2016 # the inner shell expands it
  setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child -- sh -euc '
    root=$1 tmp=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount --bind "$tmp" "$root/tmp"
    chroot "$root" sh -c "cd /onlyonce 2>/dev/null || cd /; exec \"\$@\"" sh "$@" || exit' sh "$root" "${TMPDIR:-/tmp}" \
    "${DEBIAN_ENVIRONMENT[@]}" "$@"
}

# ---- Booted ----

DEBIAN_PID= # of unshare, whose child is process 1
DEBIAN_CGROUP=

# The devices that a system needs, and no others; its own cgroups, loopback and host name.
# shellcheck disable=SC2016 # the inner shell expands it
DEBIAN_BOOT='
  root=$1
  ip link set lo up
  hostname debian
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  mkdir "$root/dev/pts" "$root/dev/shm" "$root/old"
  mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  for folder in dev/shm run tmp; do
    mount -t tmpfs tmpfs "$root/$folder"
  done
  chmod 755 "$root/run"
  cd "$root"
  pivot_root . old
  umount -l /old
  rmdir /old
  exec env -i container=onlyonce PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=journal --show-status=no'

debian_boot() {
  local cgroups
  cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  DEBIAN_CGROUP=$cgroups/onlyonce-$BASHPID
  [ -n "$cgroups" ] && packages_install iproute2 && mkdir "$DEBIAN_CGROUP" || return 1
  # shellcheck disable=SC2016 # the inner shell expands it
  setpriv --pdeathsig KILL sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec unshare --mount --pid --fork --net --uts --ipc --cgroup \
    --kill-child -- sh -euc "$@"' sh "$DEBIAN_CGROUP" "$DEBIAN_BOOT" sh "$1" </dev/null &
  DEBIAN_PID=$!
  rig_wait_until "debian_in systemctl is-system-running | grep -E '^(running|degraded)$'" 60
}

# debian_in COMMAND... : in the booted one.
debian_in() {
  local first
  first=$(cat "/proc/$DEBIAN_PID/task/$DEBIAN_PID/children") && [ -n "$first" ] &&
    nsenter -t "${first% }" -a -- "${DEBIAN_ENVIRONMENT[@]}" "$@" </dev/null
}

debian_halt() {
  [ -n "$DEBIAN_PID" ] || return 0
  kill -KILL "$DEBIAN_PID"
  wait "$DEBIAN_PID" 2>/dev/null
  DEBIAN_PID=
  rig_wait_until "find '$DEBIAN_CGROUP' -depth -type d -exec rmdir {} +" 10
}
