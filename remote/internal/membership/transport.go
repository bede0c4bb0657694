package membership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
)

// Port is what the gossip needs of the task's port.
type Port interface {
	Packets() *net.UDPConn
	Streams() <-chan net.Conn
	DialStream(address string, timeout time.Duration) (net.Conn, error)
}

const (
	maxPacket     = 64 << 10
	packetBacklog = 256
	lookupTimeout = time.Second
)

// transport is memberlist's way through the port.
type transport struct {
	port    Port
	spec    *spec.Spec
	names   sync.Map // addresses as the spec has them, by the resolved ones that were joined
	ip      net.IP
	number  int
	packets chan *memberlist.Packet
	quit    chan struct{}
	once    sync.Once
	work    sync.WaitGroup
	log     *slog.Logger
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(ctx context.Context, p Port, s *spec.Spec, self spec.Task, log *slog.Logger) (*transport, error) {
	ip, number, err := advertised(ctx, p, self)
	if err != nil {
		return nil, err
	}
	t := &transport{port: p, spec: s, ip: ip, number: number, packets: make(chan *memberlist.Packet, packetBacklog), quit: make(chan struct{}), log: log}
	t.work.Go(t.read)
	return t, nil
}

// advertised is the IP address that stands for the task in gossip: of those that its declared
// host has, the one that is bound, if it is among them.
func advertised(ctx context.Context, p Port, self spec.Task) (net.IP, int, error) {
	host, number, err := spec.SplitAddress(self.Address)
	if err != nil {
		return nil, 0, err
	}
	bound := p.Packets().LocalAddr().(*net.UDPAddr).IP
	ips, err := lookup(ctx, host)
	if err != nil {
		if bound.IsUnspecified() {
			return nil, 0, status.Errorf(status.FailedPrecondition, "Could not find the IP address of %v: %v", self, err)
		}
		ips = []net.IP{bound}
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

// lookup gives a host's addresses, those of IPv4 first, and at least one.
func lookup(ctx context.Context, host string) ([]net.IP, error) {
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
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

// read takes packets from the socket until Shutdown.
func (t *transport) read() {
	b := make([]byte, maxPacket)
	for {
		n, from, err := t.port.Packets().ReadFrom(b)
		select {
		case <-t.quit:
			return
		default:
		}
		if err != nil {
			// The socket reports errors of earlier packets too, such as a port unreachable.
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() {
				t.log.Debug("gossip could not read a packet", "error", err)
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: bytes.Clone(b[:n]), From: from, Timestamp: time.Now()}:
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

func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *transport) StreamCh() <-chan net.Conn           { return t.port.Streams() }

func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return t.port.DialStream(address, timeout)
}

// DialAddressTimeout dials the address that the spec gives the task, where it can: its certificate is for the host
// that the spec names, and the gossip knows only an IP address.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if task, ok := t.spec.ByName(a.Name); ok {
		return t.DialTimeout(task.Address, timeout)
	}
	if address, ok := t.names.Load(a.Addr); ok {
		return t.DialTimeout(address.(string), timeout)
	}
	return t.DialTimeout(a.Addr, timeout)
}

// Shutdown ends the reading; the socket belongs to the port.
func (t *transport) Shutdown() error {
	var err error
	t.once.Do(func() {
		close(t.quit)
		err = t.port.Packets().SetReadDeadline(time.Unix(1, 0))
		t.work.Wait()
	})
	return err
}
