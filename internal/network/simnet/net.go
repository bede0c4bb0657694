package simnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/internal/network"
)

// Net is a network in memory. All methods may be called concurrently.
type Net struct {
	mu     sync.Mutex
	dials  sync.Cond // signals waiting dials
	hosts  map[string]*Host
	delay  time.Duration
	loss   float64
	random *rand.Rand
	cuts   map[[2]string]bool
	names  map[string]string // IP addresses
}

// resend is the delay after which a connection sends a lost segment again.
const resend = 200 * time.Millisecond

// New makes a network without hosts. The seed decides which packets are lost.
func New(seed uint64) *Net {
	n := &Net{hosts: map[string]*Host{}, cuts: map[[2]string]bool{}, names: map[string]string{}, random: rand.New(rand.NewPCG(seed, seed))}
	n.dials.L = &n.mu
	return n
}

// Delay sets how long bytes and packets take between hosts: half of a round trip.
func (n *Net) Delay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// Lose sets the fraction of lost packets, from 0 to 1. Connections lose nothing: their lost segments arrive later.
func (n *Net) Lose(share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = share
}

// Cut stops the traffic between two hosts in both directions, or restores it. Bytes sent on connections in the meantime arrive then;
// packets are lost.
func (n *Net) Cut(a, b *Host, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[pair(a, b)] = cut
	n.wakeAll()
}

// wakeAll wakes all waiting goroutines after a fault, to check again. mu is held.
func (n *Net) wakeAll() {
	n.dials.Broadcast()
	for _, h := range n.hosts {
		for c := range h.conns {
			c.change.Broadcast()
		}
	}
}

func pair(a, b *Host) [2]string { return [2]string{min(a.ip, b.ip), max(a.ip, b.ip)} }

// passes reports whether bytes can now pass from one host to another. mu is held.
func (n *Net) passes(from, to *Host) bool {
	return from == to && !from.frozen || !from.frozen && !to.frozen && !n.cuts[pair(from, to)]
}

// travel returns when data sent now arrives, and whether it is lost. mu is held.
func (n *Net) travel(from, to *Host) (at time.Time, lost bool) {
	at = time.Now()
	if from != to {
		at = at.Add(n.delay)
		lost = n.loss > 0 && n.random.Float64() < n.loss
	}
	return at, lost
}

// Host returns the host with an IP address. The first call creates it.
func (n *Net) Host(ip string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[ip]
	if h == nil {
		h = &Host{net: n, ip: ip, ports: map[string]any{}, conns: map[*conn]struct{}{}, last: 1 << 15,
			names: map[string]string{"localhost": loopback}, forwards: map[int]*Host{}}
		n.hosts[ip] = h
	}
	return h
}

// Host is a machine.
type Host struct {
	net *Net
	ip  string

	// Guarded by net.mu.
	ports  map[string]any // *listener or *packets, by protocol and port
	conns  map[*conn]struct{}
	last   int // last assigned port
	frozen bool

	names    map[string]string // IP addresses
	forwards map[int]*Host
}

// loopback is the address of every host's loopback interface.
const loopback = "127.0.0.1"

// Name gives an IP address a name that all hosts can resolve.
func (n *Net) Name(name, ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = ip
}

// Name gives an IP address a name that only this host can resolve.
func (h *Host) Name(name, ip string) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.names[name] = ip
}

// Forward passes connections and packets for a port of this host to the same port of another one.
func (h *Host) Forward(port int, to *Host) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.forwards[port] = to
}

// lookup returns the IP address for a host name, or nil. net.mu is held.
func (h *Host) lookup(name string) net.IP {
	for _, names := range []map[string]string{h.names, h.net.names} {
		if ip, ok := names[name]; ok {
			return net.ParseIP(ip)
		}
	}
	return net.ParseIP(name)
}

// route returns the host that an IP address and port reach from this host, and the IP address reached there. The host is nil if there is
// none. net.mu is held.
func (h *Host) route(ip net.IP, port int) (to *Host, at net.IP) {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return h, net.ParseIP(loopback)
	}
	to = h.net.hosts[ip.String()]
	if to == nil {
		return nil, nil
	}
	if next := to.forwards[port]; next != nil {
		to = next
	}
	return to, to.parsed()
}

// admits reports whether a socket bound to one IP address receives what is sent to another one.
func admits(bound, to net.IP) bool {
	return bound.IsUnspecified() || bound.IsLoopback() == to.IsLoopback()
}

// Address returns a host:port of this host.
func (h *Host) Address(port int) string { return net.JoinHostPort(h.ip, strconv.Itoa(port)) }

// IP returns the host's address.
func (h *Host) IP() string { return h.ip }

// Freeze silently stops everything from and to the host, or lets it pass again.
func (h *Host) Freeze(frozen bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.frozen = frozen
	h.net.wakeAll()
}

// Process starts a process on the host.
func (h *Host) Process() *Process { return &Process{host: h} }

// Process is a process, as it sees the network. All methods may be called concurrently.
type Process struct {
	host   *Host
	killed bool // guarded by net.mu
}

var _ network.Network = (*Process)(nil)

// errKilled is the error for a process that was killed: it does nothing that others could observe.
var errKilled = errors.New("the process was killed")

// Break resets the process's connections.
func (p *Process) Break() {
	p.host.net.mu.Lock()
	defer p.host.net.mu.Unlock()
	p.breakLocked()
}

func (p *Process) breakLocked() {
	for c := range p.host.conns {
		if c.process == p {
			c.reset()
		}
	}
}

// Kill ends the process as observed by others: its connections are reset and its listeners closed.
func (p *Process) Kill() {
	p.host.net.mu.Lock()
	defer p.host.net.mu.Unlock()
	p.killed = true
	for _, o := range p.host.ports {
		switch o := o.(type) {
		case *listener:
			if o.process == p {
				o.end()
			}
		case *packets:
			if o.process == p {
				o.end()
			}
		}
	}
	p.breakLocked()
}

// bind claims a port; 0 means any free one. net.mu is held.
func (p *Process) bind(protocol string, ip net.IP, port int) (int, string, error) {
	h := p.host
	if p.killed {
		return 0, "", errKilled
	}
	if !ip.IsUnspecified() && !ip.IsLoopback() && !ip.Equal(h.parsed()) {
		return 0, "", &net.OpError{Op: "listen", Net: protocol, Err: syscall.EADDRNOTAVAIL}
	}
	key := func(port int) string { return protocol + " " + strconv.Itoa(port) }
	if port == 0 {
		for h.last++; h.ports[key(h.last)] != nil; h.last++ {
		}
		port = h.last
	}
	if h.ports[key(port)] != nil {
		return 0, "", &net.OpError{Op: "listen", Net: protocol, Err: syscall.EADDRINUSE}
	}
	return port, key(port), nil
}

func (h *Host) parsed() net.IP { return net.ParseIP(h.ip) }

// ListenTCP binds a port of the host.
func (p *Process) ListenTCP(address *net.TCPAddr) (net.Listener, error) {
	h := p.host
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	port, key, err := p.bind("tcp", address.IP, address.Port)
	if err != nil {
		return nil, err
	}
	l := &listener{host: h, process: p, key: key, address: &net.TCPAddr{IP: address.IP, Port: port}}
	l.change.L = &h.net.mu
	h.ports[key] = l
	return l, nil
}

// ListenUDP binds a port of the host.
func (p *Process) ListenUDP(address *net.UDPAddr) (net.PacketConn, error) {
	h := p.host
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	port, key, err := p.bind("udp", address.IP, address.Port)
	if err != nil {
		return nil, err
	}
	s := &packets{host: h, process: p, key: key, address: &net.UDPAddr{IP: address.IP, Port: port}}
	s.change.L = &h.net.mu
	h.ports[key] = s
	return s, nil
}

// LookupIP finds a host by its IP address or a name.
func (p *Process) LookupIP(_ context.Context, host string) ([]net.IP, error) {
	p.host.net.mu.Lock()
	defer p.host.net.mu.Unlock()
	ip := p.host.lookup(host)
	if ip == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []net.IP{ip}, nil
}

// Dial opens a connection to a listener, which takes a round trip. It is refused if there is no listener, and waits until ctx ends if the
// other host does not answer.
func (p *Process) Dial(ctx context.Context, address string) (net.Conn, error) {
	h := p.host
	fail := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	name, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fail(err)
	}
	port, err := strconv.Atoi(digits)
	if err != nil {
		return nil, fail(err)
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	ip := h.lookup(name)
	if ip == nil {
		return nil, fail(&net.DNSError{Err: "no such host", Name: name, IsNotFound: true})
	}
	to, reached := h.route(ip, port)
	if to == nil {
		return nil, fail(syscall.EHOSTUNREACH)
	}
	stop := context.AfterFunc(ctx, n.wake(&n.dials))
	defer stop()
	at, lost := n.travel(h, to)
	if back := time.Until(at); back > 0 {
		at = at.Add(back)
	}
	if lost {
		at = at.Add(resend)
	}
	if err := n.until(ctx, at, func() bool { return n.passes(h, to) }); err != nil {
		return nil, fail(err)
	}
	if p.killed {
		return nil, fail(errKilled)
	}
	l, _ := to.ports["tcp "+digits].(*listener)
	if l == nil || !admits(l.address.IP, reached) {
		return nil, fail(fmt.Errorf("connect: %w", syscall.ECONNREFUSED))
	}
	mine, theirs := connect(p, l)
	l.backlog = append(l.backlog, theirs)
	l.change.Broadcast()
	return mine, nil
}

// wake returns a function that wakes the goroutines that wait for a condition.
func (n *Net) wake(c *sync.Cond) func() {
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		c.Broadcast()
	}
}

// until waits for a point in time, and then for a condition. mu is held.
func (n *Net) until(ctx context.Context, at time.Time, holds func() bool) error {
	defer n.wakeAt(at, &n.dials)()
	for {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !time.Now().Before(at) && holds():
			return nil
		}
		n.dials.Wait()
	}
}

// listener accepts connections.
type listener struct {
	host    *Host
	process *Process
	key     string
	address *net.TCPAddr

	// Guarded by Net.mu.
	change  sync.Cond
	backlog []*conn
	closed  bool
}

func (l *listener) Accept() (net.Conn, error) {
	n := l.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(l.backlog) == 0 && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: net.ErrClosed}
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	return c, nil
}

func (l *listener) Close() error {
	n := l.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.end()
	return nil
}

// end refuses further connections. Net.mu is held.
func (l *listener) end() {
	l.closed = true
	delete(l.host.ports, l.key)
	for _, c := range l.backlog {
		c.reset()
	}
	l.change.Broadcast()
}

func (l *listener) Addr() net.Addr { return l.address }
