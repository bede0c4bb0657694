// Package network is the network that tasks listen and dial on. System is the machine's network. Package simnet has one in memory, for
// tests with many tasks, faults and simulated time.
package network

import (
	"context"
	"net"
)

// Network listens and dials. All methods may be called concurrently.
type Network interface {
	// ListenTCP and ListenUDP bind an address. Port 0 means any free one.
	ListenTCP(address *net.TCPAddr) (net.Listener, error)
	ListenUDP(address *net.UDPAddr) (net.PacketConn, error)
	// Dial opens a TCP connection to a host:port. It gives up when ctx ends.
	Dial(ctx context.Context, address string) (net.Conn, error)
	// LookupIP returns the addresses of a host. It gives up when ctx ends.
	LookupIP(ctx context.Context, host string) ([]net.IP, error)
}

// System is the network of this machine.
var System Network = system{}

type system struct{}

func (system) ListenTCP(address *net.TCPAddr) (net.Listener, error) {
	l, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, err // not a nil *net.TCPListener
	}
	return l, nil
}

func (system) ListenUDP(address *net.UDPAddr) (net.PacketConn, error) {
	c, err := net.ListenUDP("udp", address)
	if err != nil {
		return nil, err // not a nil *net.UDPConn
	}
	return c, nil
}

func (system) Dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func (system) LookupIP(ctx context.Context, host string) ([]net.IP, error) {
	return net.DefaultResolver.LookupIP(ctx, "ip", host)
}
