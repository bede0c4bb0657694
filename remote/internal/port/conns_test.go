package port

import (
	"net"
	"testing"
)

// Beyond the limit, a connection that is still being sorted is closed for a new one.
func TestSortingIsBounded(t *testing.T) {
	sorting := newConns(3)
	var open []net.Conn
	for range 10 {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		if !sorting.add(near) {
			t.Fatal("a connection is refused")
		}
		open = append(open, near)
	}
	left := 0
	for _, c := range open {
		if sorting.forget(c) {
			left++
		} else if _, err := c.Write([]byte{1}); err == nil {
			t.Error("a connection without an owner is open")
		}
	}
	if left != 3 {
		t.Errorf("%d connections are left", left)
	}
	if !sorting.add(open[0]) {
		t.Error("a connection is refused")
	}
}

func TestConnectionLimit(t *testing.T) {
	for files, want := range map[uint64]int{0: maxConnections, 1: 1, 1024: 768, 20000: 15000, 1 << 40: maxConnections} {
		if got := connectionLimit(files); got != want {
			t.Errorf("%d connections for %d files, not %d", got, files, want)
		}
	}
}
