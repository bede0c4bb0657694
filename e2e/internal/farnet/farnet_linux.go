package farnet

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	hostVariable = "TROUPE_FARNET_HOST" // the number of the host that a process runs as
	subnet       = "10.77.0."
	maxPacket    = 1500
	maxWaiting   = 4096 // packets in flight to a host; further ones are dropped, as by a switch
	startTime    = 10 * time.Second
)

// Config describes a network.
type Config struct {
	Hosts int
	Delay time.Duration // one way
	Loss  float64       // fraction of all packets, 0 to 1
	Seed  uint64        // of the losses
}

// Net is a network of hosts. All methods may be called concurrently.
type Net struct {
	config Config
	hosts  []*Host
	work   sync.WaitGroup
	ended  chan struct{}
	mu     sync.Mutex
	random *rand.Rand
}

// Host is one end of the network.
type Host struct {
	Address string // without a port

	net    *Net
	holder *exec.Cmd
	wire   *os.File // packets to and from the host, one per message
	cut    atomic.Bool
	queue  chan packet
}

type packet struct {
	due  time.Time
	data []byte
}

// RunHost runs this process as a host of a network until the network is closed, if it was started as one. Test programs call it first.
func RunHost() (was bool, err error) {
	number := os.Getenv(hostVariable)
	if number == "" {
		return false, nil
	}
	i, err := strconv.Atoi(number)
	if err != nil {
		return true, err
	}
	tun, err := openTUN(net.ParseIP(subnet + number))
	if err != nil {
		return true, fmt.Errorf("the network device of host %d: %w", i, err)
	}
	wire := os.NewFile(3, "wire")
	if _, err := wire.Write([]byte("up")); err != nil {
		return true, err
	}
	failed := make(chan error, 2)
	for _, way := range [][2]*os.File{{tun, wire}, {wire, tun}} {
		go func() {
			for b := make([]byte, 2*maxPacket); ; {
				n, err := way[0].Read(b)
				if err == nil && n > 0 {
					_, err = way[1].Write(b[:n])
				}
				if err != nil && !errors.Is(err, syscall.EINVAL) { // the device refuses what it cannot deliver
					failed <- err
					return
				}
			}
		}()
	}
	if err = <-failed; errors.Is(err, io.EOF) { // the network was closed
		err = nil
	}
	return true, err
}

// openTUN creates a device for IP packets with that address, and brings it and the loopback device up.
func openTUN(address net.IP) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	device, err := unix.NewIfreq("far0")
	if err != nil {
		return nil, err
	}
	device.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, device); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	set := func(name string, request uint, value func(*unix.Ifreq) error) error {
		r, err := unix.NewIfreq(name)
		if err == nil {
			err = value(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(s, request, r)
		}
		return err
	}
	up := func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
	return os.NewFile(uintptr(fd), "far0"), errors.Join(
		set("far0", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address.To4()) }),
		set("far0", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }),
		set("far0", unix.SIOCSIFFLAGS, up),
		set("lo", unix.SIOCSIFFLAGS, up))
}

// New makes a network. It fails if this machine or this user cannot.
func New(c Config) (*Net, error) {
	n := &Net{config: c, random: rand.New(rand.NewPCG(c.Seed, 0)), ended: make(chan struct{})}
	for i := range c.Hosts {
		h, err := n.newHost(i + 1)
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		n.hosts = append(n.hosts, h)
	}
	for _, h := range n.hosts {
		n.work.Go(h.deliver)
		n.work.Go(h.read)
	}
	return n, nil
}

func (n *Net) newHost(number int) (*Host, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "wire")
	defer theirs.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &Host{Address: subnet + strconv.Itoa(number), net: n, wire: os.NewFile(uintptr(pair[0]), "wire"), queue: make(chan packet, maxWaiting)}
	h.holder = exec.Command(self)
	h.holder.Env = append(os.Environ(), hostVariable+"="+strconv.Itoa(number))
	h.holder.Stderr = os.Stderr
	h.holder.ExtraFiles = []*os.File{theirs}
	h.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		h.holder.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		h.holder.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		h.holder.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := h.holder.Start(); err != nil {
		return nil, errors.Join(err, h.wire.Close())
	}
	b := make([]byte, maxPacket)
	if err := h.wire.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		return nil, errors.Join(err, h.end())
	}
	if k, err := h.wire.Read(b); err != nil || string(b[:k]) != "up" {
		return nil, errors.Join(fmt.Errorf("host %d does not come up: %w", number, err), h.end())
	}
	return h, h.wire.SetReadDeadline(time.Time{})
}

// Hosts returns the network's hosts.
func (n *Net) Hosts() []*Host { return n.hosts }

// Command returns the command line that runs args on the host.
func (h *Host) Command(args ...string) []string {
	enter := []string{"nsenter", "--target", strconv.Itoa(h.holder.Process.Pid), "--net"}
	if os.Geteuid() != 0 {
		enter = append(enter, "--user", "--preserve-credentials")
	}
	return append(append(enter, "--"), args...)
}

// Cut takes the host off the network, or brings it back. Packets in flight to it are lost.
func (h *Host) Cut(cut bool) { h.cut.Store(cut) }

// read reads the host's packets and sends them on.
func (h *Host) read() {
	for b := make([]byte, 2*maxPacket); ; {
		k, err := h.wire.Read(b)
		if err != nil || k == 0 {
			return
		}
		if k >= 20 && b[0]>>4 == 4 {
			h.net.send(h, b[:k])
		}
	}
}

// send queues an IPv4 packet for its destination host, if there is one.
func (n *Net) send(from *Host, data []byte) {
	i := int(data[19]) - 1 // the last byte of the destination
	if i < 0 || i >= len(n.hosts) || from.cut.Load() {
		return
	}
	n.mu.Lock()
	lost := n.random.Float64() < n.config.Loss
	n.mu.Unlock()
	if lost {
		return
	}
	select {
	case n.hosts[i].queue <- packet{time.Now().Add(n.config.Delay), append([]byte(nil), data...)}:
	default: // the host reads more slowly than others send
	}
}

// deliver writes arrived packets to the host until the network ends.
func (h *Host) deliver() {
	for {
		select {
		case <-h.net.ended:
			return
		case p := <-h.queue:
			select {
			case <-h.net.ended:
				return
			case <-time.After(time.Until(p.due)):
			}
			if h.cut.Load() {
				continue
			}
			if _, err := h.wire.Write(p.data); err != nil {
				continue // a packet that the host does not accept is lost
			}
		}
	}
}

func (h *Host) end() error {
	err := h.wire.Close()
	if e := h.holder.Process.Kill(); e != nil && !errors.Is(e, os.ErrProcessDone) {
		err = errors.Join(err, e)
	}
	_ = h.holder.Wait() // it was killed
	return err
}

// Close ends the network. Processes on its hosts go on without a connection.
func (n *Net) Close() error {
	close(n.ended)
	var all []error
	for _, h := range n.hosts {
		all = append(all, h.end())
	}
	n.work.Wait()
	return errors.Join(all...)
}
