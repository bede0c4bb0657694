package membership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/troupe-run/troupe/remote/spec"
)

// Port is what the gossip needs of the task's port.
type Port interface {
	Packets() net.PacketConn
	Streams() <-chan net.Conn
	DialStream(address string, timeout time.Duration) (net.Conn, error)
	LookupIP(ctx context.Context, host string) ([]net.IP, error)
}

const (
	packetBacklog = 256
	lookupTimeout = time.Second
	keepLookup    = 10 * time.Second // before a host's name is resolved again
)

// transport is memberlist's transport over the port.
type transport struct {
	port    Port
	spec    *spec.Spec
	names   sync.Map // the spec's addresses, by the resolved addresses that were joined
	found   sync.Map // what hosts' names resolved to, by name
	ip      net.IP
	number  int
	packets chan *memberlist.Packet
	streams chan net.Conn
	taken   exchanges // on streams that others have opened
	screen  *screen   // for gossip without keys; nil with keys
	opened  *screen   // the same for streams that this task has opened
	quit    chan struct{}
	once    sync.Once
	work    sync.WaitGroup
	log     *slog.Logger
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(ctx context.Context, p Port, s *spec.Spec, self spec.Task, keys bool, log *slog.Logger) (*transport, error) {
	ip, number, err := advertised(ctx, p, self)
	if err != nil {
		return nil, err
	}
	t := &transport{port: p, spec: s, ip: ip, number: number, packets: make(chan *memberlist.Packet, packetBacklog),
		streams: make(chan net.Conn), quit: make(chan struct{}), log: log}
	if !keys {
		t.screen, t.opened = &screen{nodes: maxNodes + s.Len()}, &screen{nodes: maxNodes + s.Len()}
	}
	t.work.Go(t.accept)
	t.work.Go(t.read)
	return t, nil
}

// advertised returns the IP address that gossip uses for the task: the bound one if the declared host has it, otherwise the first of the
// host's.
func advertised(ctx context.Context, p Port, self spec.Task) (net.IP, int, error) {
	host, number, err := spec.SplitAddress(self.Address)
	if err != nil {
		return nil, 0, err
	}
	bound := p.Packets().LocalAddr().(*net.UDPAddr).IP
	ips, err := lookup(ctx, p, host)
	if err != nil {
		ips = []net.IP{bound} // others look for the task where their cluster specs have it
	}
	ip := ips[0]
	for _, candidate := range ips {
		if candidate.Equal(bound) {
			ip = candidate
		}
	}
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	return ip, number, nil
}

// lookup returns a host's addresses, IPv4 first, and at least one.
func lookup(ctx context.Context, p Port, host string) ([]net.IP, error) {
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := p.LookupIP(ctx, host)
	if err != nil {
		return nil, err
	}
	var v4, v6 []net.IP
	for _, ip := range found {
		if ip.To4() != nil {
			v4 = append(v4, ip)
		} else {
			v6 = append(v6, ip)
		}
	}
	if len(v4)+len(v6) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return append(v4, v6...), nil
}

// read reads packets from the socket until Shutdown.
func (t *transport) read() {
	b := make([]byte, maxPacket+1)
	for {
		n, from, err := t.port.Packets().ReadFrom(b)
		select {
		case <-t.quit:
			return
		default:
		}
		if err != nil {
			// The socket also reports errors of earlier packets, such as an unreachable port.
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() {
				t.log.Debug("gossip could not read a packet", "error", err)
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if n > maxPacket || t.screen != nil && !plausible(b[:n]) {
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(b[:n]), From: from, Timestamp: time.Now()}:
		case <-t.quit:
			return
		}
	}
}

// accept takes the streams that others open until Shutdown.
func (t *transport) accept() {
	for {
		select {
		case c := <-t.port.Streams():
			if t.screen != nil {
				c = t.screen.admit(c)
			}
			c = t.taken.begin(c)
			select {
			case t.streams <- c:
			case <-t.quit:
				_ = c.Close() // there is nobody to report an error to
				return
			}
		case <-t.quit:
			return
		}
	}
}

// FinalAdvertiseAddr ignores memberlist's own settings: the spec says where the task is.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) { return t.ip, t.number, nil }

func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.port.Packets().WriteTo(b, to)
	return time.Now(), err
}

// WriteToAddress sends a packet to the task's address in the cluster spec. The address that the task itself announces may be valid only on
// its own machine.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if task, ok := t.spec.ByName(a.Name); ok {
		if at := t.locate(task, a.Addr); at != "" {
			return t.WriteTo(b, at)
		}
	}
	return t.WriteTo(b, a.Addr)
}

// foundHost is what a host's name resolved to.
type foundHost struct {
	ips []net.IP // none if it was not found
	at  time.Time
}

// locate returns the IP address and port of a task: the gossiped one if the host in the cluster spec has it, otherwise the host's first. It
// is empty if none is found.
func (t *transport) locate(task spec.Task, gossiped string) string {
	host, port, err := spec.SplitAddress(task.Address)
	if err != nil {
		return "" // a checked spec has no such address
	}
	at := func(ip net.IP) string { return net.JoinHostPort(ip.String(), strconv.Itoa(port)) }
	if ip := net.ParseIP(host); ip != nil {
		return at(ip)
	}
	known, ok := t.found.Load(host)
	if !ok || time.Since(known.(foundHost).at) > keepLookup {
		ips, err := lookup(context.Background(), t.port, host)
		if err != nil {
			t.log.Debug("gossip did not find a host", "host", host, "error", err)
		}
		known = foundHost{ips, time.Now()}
		t.found.Store(host, known)
	}
	ips := known.(foundHost).ips
	for _, ip := range ips {
		if at(ip) == gossiped {
			return gossiped
		}
	}
	if len(ips) == 0 {
		return ""
	}
	return at(ips[0])
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh returns the streams that others open.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	c, err := t.port.DialStream(address, timeout)
	if err == nil && t.opened != nil {
		c = t.opened.admit(c)
	}
	return c, err
}

// DialAddressTimeout dials the address that the spec gives the task, if it can: the task's certificate is for the host named in the spec,
// and gossip knows only an IP address.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if task, ok := t.spec.ByName(a.Name); ok {
		return t.DialTimeout(task.Address, timeout)
	}
	if address, ok := t.names.Load(a.Addr); ok {
		return t.DialTimeout(address.(string), timeout)
	}
	return t.DialTimeout(a.Addr, timeout)
}

// Shutdown stops reading; the socket belongs to the port.
func (t *transport) Shutdown() error {
	var err error
	t.once.Do(func() {
		close(t.quit)
		err = t.port.Packets().SetReadDeadline(time.Unix(1, 0))
		t.work.Wait()
	})
	return err
}
