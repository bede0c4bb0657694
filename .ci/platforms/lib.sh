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

# What a script leaves behind is taken away in the reverse order. Before that, diagnose prints what helps to find out why a step has failed.
work=$(mktemp -d "/var/tmp/troupe-$platform.XXXXXX")
undo=()
diagnose() { :; }
finish() {
	local code=$? i
	trap - EXIT
	if [ "$code" != 0 ] && [ "$code" != 77 ]; then diagnose >&2 || true; fi
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

# What a release consists of: by default, what make test-release makes.
DIST=${DIST:-$root/dist}

# made prints the path of the one file of DIST that matches a pattern.
made() {
	local found
	found=$(compgen -G "$DIST/$1") || skip "there is no $DIST/$1: make test-release"
	[ "$(wc -l <<<"$found")" = 1 ] || fail "$DIST has several files like $1"
	echo "$found"
}

# step reports what was tried and seen.
step() {
	echo "$platform ($version): $*"
	if [ -n "${RESULTS:-}" ]; then printf '%s\t%s\t%s\n' "$platform" "$*" "$version" >>"$RESULTS"; fi
}

# free_ports prints some ports of the loopback interface that are free. They are below those that Linux gives to connections, one of which could
# take a port before a server does.
free_ports() {
	python3 -c '
import random, socket, sys
free = []
for port in random.sample(range(20000, 32000), 1000):
    try:
        socket.create_server(("127.0.0.1", port)).close()
        free.append(port)
    except OSError:
        pass
print(*free[:int(sys.argv[1])])' "$1"
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

# mixed_cluster starts two tasks of this machine's program, $native, and two of the program in the array other_troupe, and runs steps over all of
# them from this machine's client, whose master is of the other kind, and from the client in the array other_step. ports and started are then the
# tasks' ports and processes.
mixed_cluster() {
	local cluster tasks ps worker
	read -r -a ports <<<"$(free_ports 4)"
	cluster="ps=127.0.0.1:${ports[0]};worker=127.0.0.1:${ports[1]},127.0.0.1:${ports[2]},127.0.0.1:${ports[3]}"
	started=()
	diagnose() { tail -n 20 "$work"/*.log; }
	serve_mixed ps "${other_troupe[@]}" serve --cluster "$cluster" --job ps
	serve_mixed worker0 "$native" serve --cluster "$cluster" --job worker --task 0
	serve_mixed worker1 "${other_troupe[@]}" serve --cluster "$cluster" --job worker --task 1
	serve_mixed worker2 "$native" serve --cluster "$cluster" --job worker --task 2
	ps=127.0.0.1:${ports[0]} worker=127.0.0.1:${ports[1]}
	"$native" wait --ready "$worker" --timeout 2m >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "the cluster does not come up"; }
	tasks=(/job:ps/task:0 /job:worker/task:0 /job:worker/task:1 /job:worker/task:2)
	CGO_ENABLED=0 go build -o "$work/step" ./.ci/platforms/step
	"$work/step" "grpc://$ps" "${tasks[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "a step whose master is of the other platform"; }
	says "$work/log" '4 tasks have made'
	"${other_step[@]}" "grpc://$worker" "${tasks[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "a step of the other platform's client"; }
	says "$work/log" '4 tasks have made'
	"$native" status "$ps" >"$work/log"
	[ "$(grep -c ' up ' "$work/log")" = 4 ] || { cat "$work/log" >&2; fail "not all tasks are up"; }
}

# serve_mixed LOG COMMAND... starts a task of the mixed cluster and notes its process.
serve_mixed() {
	"${@:2}" >"$work/$1.log" 2>&1 &
	started+=($!)
	undo+=("kill -KILL $! 2>/dev/null; wait $! 2>/dev/null")
}
