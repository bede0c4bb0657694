package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/e2e/internal/farnet"
	"github.com/troupe-run/troupe/internal/extent"
)

// runHost runs this process as a host of a network between namespaces, if it was started as one.
func runHost() (bool, error) { return farnet.RunHost() }

// TestFarTasks runs clusters whose tasks and client are far from each other. Links come up, steps run, and a task that was cut off for
// longer than its peers wait for it is found again. Handshakes with certificates and a secret have the most round trips.
func TestFarTasks(t *testing.T) {
	if !extent.Check() {
		t.Skip("the networks between far tasks are tried where each change has to pass (TROUPE_TESTS=check)")
	}
	for _, far := range []struct {
		roundTrip time.Duration
		loss      float64
		secured   bool
	}{
		{roundTrip: 200 * time.Millisecond},
		{roundTrip: 260 * time.Millisecond},
		{roundTrip: 400 * time.Millisecond, loss: 0.05},
		{roundTrip: 400 * time.Millisecond, loss: 0.05, secured: true},
	} {
		t.Run(fmt.Sprintf("%v,%v%%,secured=%v", far.roundTrip, 100*far.loss, far.secured), func(t *testing.T) {
			t.Parallel()
			python := needPython(t)
			n, err := farnet.New(farnet.Config{Hosts: 4, Delay: far.roundTrip / 2, Loss: far.loss, Seed: 1})
			if err != nil {
				t.Skip("this machine makes no networks between namespaces: ", err)
			}
			t.Cleanup(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
			hosts := n.Hosts()
			c := &cluster{}
			for i, job := range []string{"ps", "worker", "worker"} {
				c.tasks = append(c.tasks, &task{job: job, index: i / 2, addr: hosts[i].Address + ":2222", at: hosts[i].Command()})
			}
			ps, worker := c.tasks[0], c.tasks[1]
			c.spec = fmt.Sprintf("ps=%s;worker=%s,%s", ps.addr, worker.addr, c.tasks[2].addr)
			var shows []string // the flags that authenticate a client
			if far.secured {
				dir := filepath.Join(t.TempDir(), "certs") // the command creates it
				run(t, binary(t), "certs", "init", "--cluster", c.spec, "--out", dir, "--client", "alice")
				run(t, binary(t), "secret", "new", filepath.Join(dir, "secret"))
				identity := func(name string) []string {
					return []string{"--tls-cert", filepath.Join(dir, name+".pem"), "--tls-key", filepath.Join(dir, name+"-key.pem"), "--tls-ca", filepath.Join(dir, "ca.pem")}
				}
				for _, k := range c.tasks {
					k.flags = append(identity(fmt.Sprintf("%s-%d", k.job, k.index)), "--secret-file", filepath.Join(dir, "secret"))
				}
				shows = identity("client-alice")
			}
			t.Cleanup(func() {
				if err := c.stop(); err != nil {
					t.Error(err)
				}
				c.attachLogs(t)
			})
			for _, k := range c.tasks {
				c.start(t, k)
			}
			far := func(args ...string) string {
				t.Helper()
				return run(t, hosts[3].Command(args...)...)
			}
			troupe := func(args ...string) string {
				t.Helper()
				return far(append(append([]string{binary(t)}, args...), shows...)...)
			}
			// count runs the program. TensorFlow's client cannot where clients need certificates.
			count := func(how, want string) {
				t.Helper()
				if shows == nil {
					if out := far(python, filepath.Join("programs", "far.py"), worker.target(), how); !strings.Contains(out, want) {
						t.Error(out)
					}
				}
			}
			troupe("wait", "--ready", "--timeout", "60s", worker.target())
			count("first", "counted 1")
			// The first look may end before the links that it needs are open.
			for end := time.Now().Add(extent.Slack(30 * time.Second)); ; {
				out := troupe("links", worker.target())
				if strings.Contains(out, "ms") {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the links have no round trip:\n%s", out)
				}
			}
			hosts[0].Cut(true)
			args := hosts[3].Command(append([]string{binary(t), "wait", "--ready", "--timeout", "2s", worker.target()}, shows...)...)
			for end := time.Now().Add(extent.Slack(30 * time.Second)); exec.Command(args[0], args[1:]...).Run() == nil; {
				if time.Now().After(end) {
					t.Fatal("nobody misses a task that was cut off")
				}
			}
			back := time.AfterFunc(3*time.Second, func() { hosts[0].Cut(false) })
			defer back.Stop()
			count("again", "counted 2")
			troupe("wait", "--ready", "--timeout", "60s", worker.target())
		})
	}
}

// run runs a command that must succeed, and returns its output.
func run(t *testing.T, args ...string) string {
	t.Helper()
	began := time.Now()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	t.Logf("%s took %v", strings.Join(args, " "), time.Since(began).Round(10*time.Millisecond))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}
