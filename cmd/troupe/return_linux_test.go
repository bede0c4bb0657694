//go:build !race

package main

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
)

// TestMemoryComesBack: after clients that each held a constant of 64 MiB have vanished and their leases have ended, the server's memory
// returns within a minute to what it was. A tenth of that and half a percent of the peak may remain: Go keeps its tables of memory, and
// what no collection has yet found to be free.
func TestMemoryComesBack(t *testing.T) {
	if !extent.Check() {
		t.Skip("takes a minute")
	}
	const clients, size = 12, 16 << 20 // elements
	p := startFor(t, 10*patience, nil, "serve", "--lease", "1s", "--local=localhost:0")
	address := p.target()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	hold := func(n int) *client.Client {
		c, err := client.Dial(ctx, address)
		if err != nil {
			t.Fatal(err)
		}
		s := op.NewScope()
		op.Size(s, op.Const(s, make([]float32, n)))
		def, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		session, err := c.NewSession(ctx, def, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Run(ctx, nil, nil, []string{def.Node[len(def.Node)-1].Name}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	// Memory that a server needs once and keeps counts as used before.
	hold(1).Close(ctx)
	pid := p.cmd.Process.Pid
	before := settled(t, pid, 0)
	var all []*client.Client
	for range clients {
		all = append(all, hold(size))
	}
	held := memory(t, pid, "VmRSS:")
	for _, c := range all {
		c.Close(ctx) // its sessions stay open
	}
	most := before + before/10 + held/200
	after := settled(t, pid, most)
	t.Logf("%d MiB before, %d with all clients, %d after them", before>>20, held>>20, after>>20)
	if after > most {
		t.Errorf("%d bytes after the clients are gone, %d before they came", after, before)
	}
}

// settled returns a process's resident memory once it has come down to enough, or has not gone down for a while. It waits at most a minute.
func settled(t *testing.T, pid int, enough int64) int64 {
	t.Helper()
	least := memory(t, pid, "VmRSS:")
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	quiet := time.Now()
	end := time.After(time.Minute)
	for least > enough && (enough > 0 || time.Since(quiet) < 8*time.Second) {
		select {
		case <-end:
			return least
		case <-tick.C:
		}
		if n := memory(t, pid, "VmRSS:"); n < least-1<<18 {
			least, quiet = n, time.Now()
		}
	}
	return least
}
