# Sourced by the scripts that need a Debian: debian FOLDER makes a fresh one with systemd, from a copy that is kept for a day in /var/cache.
# shellcheck shell=bash

debian() {
	local kept=${PLATFORMS_CACHE:-/var/cache/troupe-platforms}/bookworm.tar
	mkdir -p "$(dirname "$kept")"
	if [ -z "$(find "$kept" -mtime -1 2>/dev/null)" ]; then
		debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,iproute2 bookworm "$work/debootstrap" >"$work/debootstrap.log" 2>&1 ||
			skip "debootstrap cannot make a Debian: $(tail -n 1 "$work/debootstrap.log")"
		tar -C "$work/debootstrap" -cf "$kept.next" .
		mv "$kept.next" "$kept"
		rm -rf --one-file-system "$work/debootstrap"
	fi
	mkdir -p "$1"
	tar -C "$1" -xf "$kept"
}
