//go:build !race

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
)

// controlGroup creates a control group with a limit of bytes, of the version that the system has, and returns the file to which its
// processes are written.
func controlGroup(t *testing.T, bytes int64) string {
	t.Helper()
	for root, limit := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(root, fmt.Sprintf("troupe-test-%d-%d", os.Getpid(), bytes))
		if err := os.Mkdir(dir, 0o700); err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Log(err)
			}
		})
		if err := os.WriteFile(filepath.Join(dir, limit), fmt.Append(nil, bytes), 0o600); err != nil {
			continue
		}
		return filepath.Join(dir, "cgroup.procs")
	}
	t.Skip("no control group of memory can be made here")
	return ""
}

// noise returns n random bytes: no two results are equal.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// filling adds about n MiB to what a server holds.
type filling func(t *testing.T, c *client.Client, n int) error

var fillings = map[string]filling{
	"elements of a queue": func(t *testing.T, c *client.Client, n int) error {
		s := op.NewScope()
		q := op.FIFOQueueV2(s, []tensor.DType{tensor.Uint8}, attr.SharedName("q"))
		op.QueueEnqueueV2(s.WithName("put"), q, []op.Output{op.Const(s, noise(n<<20))})
		return once(t, c, s, true)
	},
	"constants of sessions": func(t *testing.T, c *client.Client, n int) error {
		s := op.NewScope()
		op.Const(s.WithName("put"), noise(n<<20))
		return once(t, c, s, false)
	},
	"strings of sessions": func(t *testing.T, c *client.Client, n int) error {
		s := op.NewScope()
		all := make([]string, n*10_000)
		for i := range all {
			all[i] = string(noise(50))
		}
		op.Const(s.WithName("put"), all)
		return once(t, c, s, false)
	},
	"nodes of sessions": func(t *testing.T, c *client.Client, n int) error {
		s := op.NewScope()
		for range n * 2000 {
			op.Const(s, rand.Float32())
		}
		op.NoOp(s.WithName("put"))
		return once(t, c, s, false)
	},
}

// TestSmallControlGroup checks that clients that fill the memory of a server in a control group of 256 MiB, or of 1 GiB, get
// RESOURCE_EXHAUSTED, and that the kernel does not kill the process.
func TestSmallControlGroup(t *testing.T) {
	if !extent.Check() {
		t.Skip("takes two minutes")
	}
	for _, room := range []int64{256 << 20, 1 << 30} {
		procs := controlGroup(t, room)
		for name, pile := range fillings {
			t.Run(fmt.Sprintf("%d MiB/%s", room>>20, name), func(t *testing.T) { fillGroup(t, procs, room, pile) })
		}
	}
}

// fillGroup starts a server in the control group whose processes are written to procs, and piles until five calls have been refused.
func fillGroup(t *testing.T, procs string, room int64, pile filling) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "troupe")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("echo $$ > %s && exec %s serve --local=localhost:0", procs, link))
	var log strings.Builder
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at, logged := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(logged)
		b := make([]byte, 4<<10)
		for {
			n, err := out.Read(b)
			log.Write(b[:n])
			if m := target.FindStringSubmatch(log.String()); m != nil && len(at) == 0 {
				at <- m[1]
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-logged
		ended := cmd.Wait()
		if text := log.String(); t.Failed() {
			t.Logf("the server ended with %v: %s", ended, text[max(0, len(text)-2000):])
		}
	}()
	var address string
	select {
	case address = <-at:
	case <-time.After(patience):
		t.Fatal("the server does not start")
	}
	c, err := client.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	most, full := int64(0), 0
	for i := 0; full < 5; i++ {
		if i > 4000 {
			t.Fatal("nothing is refused")
		}
		if err := pile(t, c, int(room>>28)); err != nil {
			if status.CodeOf(err) != status.ResourceExhausted {
				t.Fatalf("after %d: %v", i, err)
			}
			full++
		}
		if most = max(most, memory(t, cmd.Process.Pid, "VmRSS:")-memory(t, cmd.Process.Pid, "RssFile:")); most > room {
			t.Fatalf("after %d the server has %d MiB", i, most>>20)
		}
	}
	t.Logf("at most %d MiB", most>>20)
}

// once opens a session and runs its node put. The session stays open unless closes is set.
func once(t *testing.T, c *client.Client, s *op.Scope, closes bool) error {
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := c.NewSession(ctx, def, nil)
	if err != nil {
		return err
	}
	_, err = session.Run(ctx, nil, nil, []string{"put"})
	if closes {
		if e := session.Close(ctx); err == nil {
			err = e
		}
	}
	return err
}
