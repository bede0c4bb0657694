# Sourced by the scripts that need a Debian: debian FOLDER makes a fresh one with systemd, from a copy that is kept for a day in /var/cache. Its archive is
# the one that this machine's apt has.
# shellcheck shell=bash

debian() {
	local kept=${PLATFORMS_CACHE:-/var/cache/troupe-platforms}/bookworm.tar mirror proxy
	mkdir -p "$(dirname "$kept")"
	if [ -z "$(find "$kept" -mtime -1 2>/dev/null)" ]; then
		# shellcheck disable=SC2016 # these are apt's variables
		mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | sed -n 's/ bookworm$//p' | head -n 1)
		[ -n "$mirror" ] || skip "apt has no source for Debian 12 (bookworm)"
		eval "$(apt-config shell proxy Acquire::http::Proxy)"
		http_proxy=${proxy:-${http_proxy:-}} debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,iproute2 bookworm "$work/debootstrap" "$mirror" \
			>"$work/debootstrap.log" 2>&1 || skip "debootstrap cannot make a Debian: $(tail -n 1 "$work/debootstrap.log")"
		tar -C "$work/debootstrap" -cf "$kept.next" .
		mv "$kept.next" "$kept"
		rm -rf --one-file-system "$work/debootstrap"
	fi
	mkdir -p "$1"
	tar -C "$1" -xf "$kept"
}
