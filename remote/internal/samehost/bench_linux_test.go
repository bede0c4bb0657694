package samehost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sendLoop connects to a reader, and sends n bytes of data for each byte from it, until the connection ends. where
// is "address n".
func sendLoop(where string, data []byte) error {
	var address string
	var n int
	if _, err := fmt.Sscan(where, &address, &n); err != nil {
		return err
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for ask := make([]byte, 1); ; {
		if _, err := io.ReadFull(conn, ask); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if _, err := conn.Write(data[:n]); err != nil {
			return err
		}
	}
}

// BenchmarkTransfer compares a Read with the same bytes over loopback TCP, from the same process. Both
// begin with a byte to the owner; the Read then waits for a byte that represents the announcement. The
// processor time is that of both processes.
func BenchmarkTransfer(b *testing.B) {
	o := startOwner(b, ownerLarge, nil)
	m := o.attach()
	data := make([]byte, offeredLarge)
	fill(data)
	for _, n := range []int{4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20} {
		dst := pooled(n)
		run := func(name string, sent int, transfer func(c net.Conn) error) {
			b.Run(fmt.Sprintf("%dKiB/%s", n>>10, name), func(b *testing.B) {
				conn, end := o.connect(sent)
				defer end()
				clear(dst)
				b.SetBytes(int64(n))
				start := cpuTime(b, os.Getpid()) + cpuTime(b, o.cmd.Process.Pid)
				for b.Loop() {
					if _, err := conn.Write([]byte{1}); err != nil {
						b.Fatal(err)
					}
					if err := transfer(conn); err != nil {
						b.Fatal(err)
					}
				}
				used := cpuTime(b, os.Getpid()) + cpuTime(b, o.cmd.Process.Pid) - start
				b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
				if string(dst) != string(data[:n]) {
					b.Error("not the bytes of the owner")
				}
			})
		}
		run("tcp", n, func(c net.Conn) error {
			_, err := io.ReadFull(c, dst)
			return err
		})
		announcement := make([]byte, 1)
		run("read", 1, func(c net.Conn) error {
			if _, err := io.ReadFull(c, announcement); err != nil {
				return err
			}
			return m.Read(dst, o.ticket)
		})
		first, second := o.lend(0, n/2), o.lend(n/2, n/2)
		run("read-by-2", 1, func(c net.Conn) error {
			if _, err := io.ReadFull(c, announcement); err != nil {
				return err
			}
			var wg sync.WaitGroup
			var other error
			wg.Go(func() { other = m.Read(dst[:n/2], first) })
			err := m.Read(dst[n/2:], second)
			wg.Wait()
			return errors.Join(err, other)
		})
	}
}

// cpuTime returns the processor time that a process has used so far.
func cpuTime(b *testing.B, pid int) time.Duration {
	const schedulers = 2 // CPUCLOCK_SCHED: what the scheduler counts, not ticks
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedulers), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// connect makes the owner send n bytes for each byte that it receives on the connection, until end.
func (o *owner) connect(n int) (conn net.Conn, end func()) {
	o.t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		o.t.Fatal(err)
	}
	defer l.Close()
	if _, err := fmt.Fprintf(o.in, "send %s %d\n", l.Addr(), n); err != nil {
		o.t.Fatal(err)
	}
	if err := l.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		o.t.Fatal(err)
	}
	if conn, err = l.Accept(); err != nil {
		o.t.Fatal(err)
	}
	return conn, func() { conn.Close() }
}
