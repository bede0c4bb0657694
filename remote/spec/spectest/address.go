// Package spectest finds addresses for the clusters of tests.
package spectest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from below the range of outgoing connections, so that no such connection takes a port before its task does.
const firstPort, ports = 10_000, 22_000

// claims is the address on which a port is claimed while its test runs: go test runs the tests of several packages at the same time, each
// in its own process, and between the choice of a port and the start of its task another process would find it free. Another port stands for it
// there, so that a task can bind its own on all interfaces.
const claims = "127.0.0.3"

// Addresses returns n addresses of this machine that are free for TCP and UDP. No other test that calls it gets them before this one has
// ended.
func Addresses(t testing.TB, n int) []string {
	t.Helper()
	return claimed(t, n, "127.0.0.1", "127.0.0.1")
}

// WildcardAddresses is Addresses for a host whose tasks bind all interfaces.
func WildcardAddresses(t testing.TB, host string, n int) []string {
	t.Helper()
	return claimed(t, n, host, "0.0.0.0")
}

// claimed returns n addresses of a host whose ports are free where its tasks bind them.
func claimed(t testing.TB, n int, host, bind string) []string {
	t.Helper()
	var found []string
	for range 100 * n {
		if len(found) == n {
			break
		}
		port := firstPort + rand.IntN(ports)
		claim, err := net.Listen("tcp", fmt.Sprintf("%s:%d", claims, port+ports))
		if err != nil {
			continue
		}
		if unforked(func() bool { return free(fmt.Sprintf("%s:%d", bind, port)) }) {
			t.Cleanup(func() { claim.Close() })
			found = append(found, net.JoinHostPort(host, strconv.Itoa(port)))
		} else {
			claim.Close()
		}
	}
	if len(found) < n {
		t.Fatalf("%d of %d free ports found", len(found), n)
	}
	return found
}

// Address returns a single address like those of Addresses.
func Address(t testing.TB) string {
	t.Helper()
	return Addresses(t, 1)[0]
}

func free(address string) bool {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	udp.Close()
	return true
}
