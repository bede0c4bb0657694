package port

import (
	"context"
	"net"
	"time"
)

// Packets returns the UDP socket with the port's number. The port owns and closes it.
func (p *Port) Packets() net.PacketConn { return p.udp }

// Streams returns the channel of accepted gossip connections. A connection that is not received
// within two seconds is closed.
func (p *Port) Streams() <-chan net.Conn { return p.mux.streams.accepted }

// LookupIP returns the addresses of a host.
func (p *Port) LookupIP(ctx context.Context, host string) ([]net.IP, error) {
	return p.config.Network.LookupIP(ctx, host)
}

// DialStream opens a gossip connection to another task's port. The first byte written must be
// neither a capital letter nor 0x16, by which the other end recognizes HTTP and TLS.
func (p *Port) DialStream(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return p.dialer().dial(ctx, address, protoGossip)
}
