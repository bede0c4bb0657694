package port

import (
	"context"
	"net"
	"time"
)

// Packets is the UDP socket of the port's number. It belongs to the port, which closes it.
func (p *Port) Packets() *net.UDPConn { return p.udp }

// Streams gives the gossip connections that were accepted. They are closed when nobody takes
// them within two seconds.
func (p *Port) Streams() <-chan net.Conn { return p.mux.streams.accepted }

// DialStream opens a gossip connection to another task's port. The first byte written must be
// neither a capital letter nor 0x16, by which the other end knows HTTP and TLS.
func (p *Port) DialStream(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return dial(ctx, p.config.Credentials, address, protoGossip)
}
