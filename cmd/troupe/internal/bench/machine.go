package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// Machine is the measuring machine without a cluster: its loopback interface and its memory.
type Machine struct {
	// RoundTrip is a byte there and back over TCP, between two goroutines.
	RoundTrip Samples
	// Stream is sending Large bytes over TCP, and Copy is copying them in memory.
	Stream, Copy Samples
}

func measureMachine(ctx context.Context, budget time.Duration) (m Machine, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return m, err
	}
	echoed := make(chan error, 1)
	go func() { echoed <- echo(l) }()
	defer func() {
		err = errors.Join(err, l.Close(), <-echoed)
	}()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return m, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var one [1]byte
	if m.RoundTrip, err = sample(budget/4, func() error {
		if _, err := c.Write([]byte{short}); err != nil {
			return err
		}
		_, err := io.ReadFull(c, one[:])
		return err
	}); err != nil {
		return m, err
	}
	from, to := make([]byte, Large), make([]byte, Large)
	from[0] = long
	if m.Stream, err = sample(budget/4, func() error {
		if _, err := c.Write(from); err != nil {
			return err
		}
		_, err := io.ReadFull(c, one[:])
		return err
	}); err != nil {
		return m, err
	}
	m.Copy, err = sample(budget/4, func() error { copy(to, from); return nil })
	return m, err
}

// The first byte of a message encodes its length: 1 byte, or Large.
const (
	short = 1
	long  = 2
)

// echo answers each message of one connection with a byte, until its end.
func echo(l net.Listener) error {
	c, err := l.Accept()
	if errors.Is(err, net.ErrClosed) {
		return nil // no client connected
	}
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 1<<20)
	for {
		if _, err := io.ReadFull(c, b[:1]); err != nil {
			return nil //nolint:nilerr // the other end is done
		}
		if b[0] == long {
			for left := Large - 1; left > 0; {
				n, err := c.Read(b[:min(left, len(b))])
				if err != nil {
					return err
				}
				left -= n
			}
		}
		if _, err := c.Write(b[:1]); err != nil {
			return err
		}
	}
}
