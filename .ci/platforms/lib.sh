# Sourced by the scripts of this folder, each of which tries one platform: what it needs, what it has seen, how it ends.
#
# A script sets version, calls step for each thing that it has tried and seen, and exits with 0; with 77 if the machine lacks what it needs, and
# says what; with anything else if something is not as promised.
# shellcheck shell=bash
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
platform=$(basename "$0")
version=

# What a script leaves behind is taken away in the reverse order.
work=$(mktemp -d "/var/tmp/troupe-$platform.XXXXXX")
undo=()
finish() {
	local code=$? i
	trap - EXIT
	for ((i = ${#undo[@]} - 1; i >= 0; i--)); do eval "${undo[i]}" || true; done
	rm -rf --one-file-system "$work"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

skip() {
	echo "$platform: skipped: $*" >&2
	exit 77
}

fail() {
	echo "$platform: FAILED: $*" >&2
	exit 1
}

# need skips the script unless all programs are installed.
need() {
	local p
	for p; do command -v "$p" >/dev/null || skip "$p is not installed"; done
}

need_root() { [ "$(id -u)" = 0 ] || skip "it needs root"; }

# made is the one file of dist that matches a pattern.
made() {
	local found
	found=$(compgen -G "dist/$1") || skip "there is no dist/$1: make test-release, or make release-dry-run for all architectures"
	[ "$(wc -l <<<"$found")" = 1 ] || fail "dist has several files like $1"
	echo "$root/$found"
}

# step reports what was tried and seen.
step() {
	echo "$platform ($version): $*"
	if [ -n "${RESULTS:-}" ]; then printf '%s\t%s\t%s\n' "$platform" "$*" "$version" >>"$RESULTS"; fi
}

# eventually repeats a command until it succeeds, for at most some seconds.
eventually() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt "$end" ] || fail "not in time: $*"
		sleep 0.2
	done
}

# says fails the script unless a file contains a text.
says() { grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "$1 does not say: $2"; }; }

# is_not fails the script if a command succeeds.
is_not() { if "$@" >/dev/null 2>&1; then fail "it holds: $*"; fi; }
