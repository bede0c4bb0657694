package gateway

import (
	"context"
	"net"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

// rightsOf are the rights of the client that makes a call: of one over the loopback interface, which a user of this
// machine is, those of the server's user; of others what the servers give to everybody.
func rightsOf(ctx context.Context) actors.Rights {
	p, _ := http2.PeerOf(ctx)
	r := rightsOfPeer(p)
	if p.Address != nil && (!loopback(p.Address) || p.TLS != nil) {
		r.Client = http2.ClientOf(p)
	}
	return r
}

func rightsOfPeer(p http2.Peer) actors.Rights {
	switch {
	case p.Address == nil:
		return actors.Rights{Who: "a client of no known address", Files: actors.SharedFiles}
	case loopback(p.Address):
		return actors.Rights{Who: "the client at " + p.Address.String(), Files: actors.AllFiles}
	}
	return actors.Rights{Who: "the client at " + p.Address.String(), Files: actors.SharedFiles}
}

// loopback tells whether an address is one of the loopback interface.
func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
