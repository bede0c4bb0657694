package gateway

import (
	"context"
	"net"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/internal/caller"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

// rightsOf returns the rights of the calling client. A client on the loopback interface, which is a user of this machine, has those of the
// server's user; others have what the server grants everybody.
func rightsOf(ctx context.Context) actors.Rights {
	p, _ := http2.PeerOf(ctx)
	r := rightsOfPeer(p)
	if p.Address != nil && (!loopback(p.Address) || p.TLS != nil) {
		r.Client = http2.ClientOf(p)
	}
	return r
}

func rightsOfPeer(p http2.Peer) actors.Rights {
	r := actors.Rights{Who: caller.ClientAt(p.Address), Files: actors.SharedFiles}
	if p.Address != nil && loopback(p.Address) {
		r.Files = actors.AllFiles
	}
	return r
}

// loopback reports whether an address is on the loopback interface.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
