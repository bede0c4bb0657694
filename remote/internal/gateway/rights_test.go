package gateway

import (
	"net"
	"testing"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

// TestRightsByAddress checks that only clients on the loopback interface may use all files.
func TestRightsByAddress(t *testing.T) {
	for _, c := range []struct {
		address net.Addr
		want    actors.FileRights
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, actors.AllFiles},
		{&net.TCPAddr{IP: net.IPv4(127, 9, 9, 9), Port: 1}, actors.AllFiles},
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, actors.AllFiles},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 1}, actors.AllFiles},
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 1}, actors.SharedFiles},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.7"), Port: 1}, actors.SharedFiles},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "lo", Port: 1}, actors.SharedFiles},
		{&net.TCPAddr{IP: net.IPv4zero, Port: 1}, actors.SharedFiles},
		{&net.TCPAddr{}, actors.SharedFiles},
		{&net.UnixAddr{Name: "/tmp/x", Net: "unix"}, actors.SharedFiles},
		{nil, actors.SharedFiles},
	} {
		r := rightsOfPeer(http2.Peer{Connection: 1, Address: c.address})
		if r.Files != c.want || r.Who == "" {
			t.Errorf("%v: got %+v, want %v", c.address, r, c.want)
		}
	}
	if r := rightsOf(t.Context()); r.Files != actors.SharedFiles {
		t.Errorf("without a peer: %+v", r)
	}
}
