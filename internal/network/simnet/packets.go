package simnet

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// maxPackets bounds the packets that wait for a socket; further ones are lost.
const maxPackets = 1 << 10

// packets is a UDP socket.
type packets struct {
	host    *Host
	process *Process
	key     string
	address *net.UDPAddr

	// Guarded by Net.mu.
	change   sync.Cond
	waiting  []packet
	deadline deadline
	closed   bool
}

type packet struct {
	at   time.Time
	from net.Addr
	data []byte
}

func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	n := p.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, nil, &net.OpError{Op: "read", Net: "udp", Err: net.ErrClosed}
		case p.deadline.over():
			return 0, nil, &net.OpError{Op: "read", Net: "udp", Err: os.ErrDeadlineExceeded}
		case len(p.waiting) > 0 && !p.waiting[0].at.After(time.Now()):
			m := p.waiting[0]
			p.waiting = p.waiting[1:]
			return copy(b, m.data), m.from, nil
		}
		p.change.Wait()
	}
}

func (p *packets) WriteTo(b []byte, to net.Addr) (int, error) {
	n := p.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.closed {
		return 0, &net.OpError{Op: "write", Net: "udp", Err: net.ErrClosed}
	}
	u, ok := to.(*net.UDPAddr)
	if !ok {
		return 0, &net.OpError{Op: "write", Net: "udp", Err: net.InvalidAddrError("not an address of UDP")}
	}
	host, reached := p.host.route(u.IP, u.Port)
	if host == nil || !n.passes(p.host, host) {
		return len(b), nil
	}
	at, lost := n.travel(p.host, host)
	other, _ := host.ports["udp "+strconv.Itoa(u.Port)].(*packets)
	if lost || other == nil || !admits(other.address.IP, reached) || len(other.waiting) >= maxPackets {
		return len(b), nil
	}
	from := &net.UDPAddr{IP: p.host.parsed(), Port: p.address.Port}
	other.waiting = append(other.waiting, packet{at: at, from: from, data: bytes.Clone(b)})
	n.wakeAt(at, &other.change)
	return len(b), nil
}

// wakeAt wakes the goroutines that wait for a condition, at a point in time; stop calls that off. mu is held.
//
// It starts no timer that is due at once: in a bubble of synctest, such a timer runs on the goroutine that starts it, and two of them at the same
// moment share one context of the race detector, which ends the process with SIGSEGV at times (Go 1.26).
func (n *Net) wakeAt(at time.Time, c *sync.Cond) (stop func()) {
	d := time.Until(at)
	if d <= 0 {
		c.Broadcast()
		return func() {}
	}
	timer := time.AfterFunc(d, n.wake(c))
	return func() { timer.Stop() }
}

func (p *packets) Close() error {
	n := p.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	p.end()
	return nil
}

// end closes the socket. Net.mu is held.
func (p *packets) end() {
	p.closed = true
	p.deadline.stop()
	delete(p.host.ports, p.key)
	p.change.Broadcast()
}

func (p *packets) LocalAddr() net.Addr { return p.address }

func (p *packets) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

func (p *packets) SetReadDeadline(t time.Time) error {
	n := p.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	p.deadline.set(n, t, &p.change)
	return nil
}

// SetWriteDeadline does nothing: a write never waits.
func (p *packets) SetWriteDeadline(time.Time) error { return nil }

// deadline bounds the wait of a read or a write. It is guarded by Net.mu.
type deadline struct {
	at     time.Time
	unwake func() // stops its timer; nil if there is none
}

func (d *deadline) set(n *Net, at time.Time, c *sync.Cond) {
	d.stop()
	d.at = at
	c.Broadcast()
	if !at.IsZero() {
		d.unwake = n.wakeAt(at, c)
	}
}

func (d *deadline) stop() {
	if d.unwake != nil {
		d.unwake()
		d.unwake = nil
	}
}

func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }
