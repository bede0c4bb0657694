//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/internal/extent"
)

// TestPlacementIsLogged checks that with log_device_placement, the master prints the placement of each node.
func TestPlacementIsLogged(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	d := drivers.borrow(t)
	d.must(t, request{Case: "cases/placement.py", Function: "test_log_device_placement", Name: "logging", Targets: c.targets()}, caseTime)
	contains(t, "the master's output", c.task("worker", 0).proc.log.String(),
		"sum: (AddV2): /job:ps/replica:0/task:0/device:CPU:0", "product: (Mul): /job:worker/replica:0/task:0/device:CPU:0")
}

// TestDeclarations checks that every form of declaring a cluster makes the same task.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	for _, form := range []struct {
		name string
		args func(spec string, ps, worker string) []string
		env  func(ps, worker string) string
	}{
		{"--cluster", func(spec, _, _ string) []string { return []string{"--cluster", spec, "--job", "worker"} }, nil},
		{"TensorFlow's names", func(_, ps, worker string) []string {
			return []string{"--ps=" + ps, "--worker=" + worker, "--job_name=worker", "--task_index=0"}
		}, nil},
		{"one dash", func(_, ps, worker string) []string {
			return []string{"-ps", ps, "-worker", worker, "-job_name", "worker", "-task_index", "0"}
		}, nil},
		{"TF_CONFIG", func(_, _, _ string) []string { return nil }, func(ps, worker string) string {
			return fmt.Sprintf(`TF_CONFIG={"cluster": {"ps": [%q], "worker": [%q]}, "task": {"type": "worker", "index": 0}}`, ps, worker)
		}},
	} {
		t.Run(form.name, func(t *testing.T) {
			c := declare(t, "ps=1,worker=1")
			ps, worker := c.tasks[0], c.tasks[1]
			cmd := exec.Command(binary(t), append([]string{"serve"}, form.args(c.spec, ps.addr, worker.addr)...)...)
			if form.env != nil {
				cmd.Env = append(os.Environ(), form.env(ps.addr, worker.addr))
			}
			p, err := launch(form.name, cmd)
			if err != nil {
				t.Fatal(err)
			}
			worker.proc = p
			t.Cleanup(func() {
				if err := c.stop(); err != nil {
					t.Error(err)
				}
				c.attachLogs(t)
			})
			c.ready(t)
		})
	}
}

// TestServerDef starts a task from a ServerDef, as a program does that embeds one: the task prints its target, and ends with its standard
// input.
func TestServerDef(t *testing.T) {
	t.Parallel()
	def := &corepb.ServerDef{JobName: "lone", Protocol: "grpc",
		Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "lone", Tasks: map[int32]string{0: "localhost:0"}}}}}
	embedTask := func(def *corepb.ServerDef) (*process, io.WriteCloser, *bufio.Scanner) {
		t.Helper()
		b, err := proto.Marshal(def)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "server_def.pb")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return converse(t, "serve --server_def", exec.Command(binary(t), "serve", "--server_def="+path))
	}

	p, stdin, lines := embedTask(def)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "TARGET grpc://localhost:") {
		t.Fatalf("it printed %q\n%s", lines.Text(), p.log.tail())
	}
	m, err := dial(strings.TrimPrefix(lines.Text(), "TARGET grpc://"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	works(t, m)
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		continue
	}
	if _, err := p.wait(extent.Slack(5 * time.Second)); err != nil {
		p.kill()
		t.Error(err)
	}

	bad := proto.CloneOf(def)
	bad.JobName = "other"
	p, _, lines = embedTask(bad)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "ERROR ") || !strings.Contains(lines.Text(), "other") {
		t.Errorf("it printed %q", lines.Text())
	}
	for lines.Scan() {
		continue
	}
	if code, err := p.wait(extent.Slack(5 * time.Second)); err != nil || code == 0 {
		p.kill()
		t.Errorf("exit code %d, %v", code, err)
	}
}

// TestBadDeclarations checks that an invalid cluster is refused before anything is bound, with the reason.
func TestBadDeclarations(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--cluster", "ps=127.0.0.1:1;ps=127.0.0.1:2"}, "ps"},
		{[]string{"--cluster", "ps"}, "ps"},
		{[]string{"--cluster", "ps=127.0.0.1"}, "127.0.0.1"},
		{[]string{"--cluster", "ps=127.0.0.1:99999"}, "99999"},
		{[]string{"--cluster", "ps=127.0.0.1:12,127.0.0.1:12", "--task", "0"}, "127.0.0.1:12"},
		{[]string{"--cluster", "ps=127.0.0.1:12", "--job", "worker"}, "worker"},
		{[]string{"--cluster", "ps=127.0.0.1:12", "--task", "3"}, "3"},
		{[]string{"--cluster", "ps=127.0.0.1:12;worker=127.0.0.1:13"}, "job"},
		{[]string{"--cluster", "ps=127.0.0.1:12", "--protocol", "grpc+verbs"}, "grpc+verbs"},
		{[]string{"--server_def", "/no/such/file"}, "/no/such/file"},
		{nil, "cluster"},
	} {
		t.Run(strings.Join(row.args, " "), func(t *testing.T) {
			code, text := command(t, append([]string{"serve"}, row.args...)...)
			if code == 0 {
				t.Error("exit code 0")
			}
			contains(t, "the refusal", text, row.want)
			if strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
				t.Errorf("it crashed:\n%s", text)
			}
		})
	}
}

// TestDemo checks that the demo does the project's main job and ends by itself.
func TestDemo(t *testing.T) {
	t.Parallel()
	code, text := command(t, "demo")
	if code != 0 {
		t.Errorf("exit code %d\n%s", code, text)
	}
}

// TestUp runs a whole cluster in one process.
func TestUp(t *testing.T) {
	t.Parallel()
	p, err := launch("troupe up", exec.Command(binary(t), "up", "--tasks", "ps=1,worker=2"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.terminate(); err != nil {
			t.Error(err)
		}
	}()
	var targets []string
	eventually(t, 20*time.Second, "three targets are printed", func() error {
		targets = nil
		for word := range strings.FieldsSeq(p.log.String()) {
			if addr, ok := strings.CutPrefix(word, "grpc://"); ok {
				targets = append(targets, strings.TrimRight(addr, `",;`))
			}
		}
		if len(targets) < 3 {
			return fmt.Errorf("it printed\n%s", p.log)
		}
		return nil
	})
	for _, addr := range targets[:3] {
		m, err := dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		works(t, m)
		m.close()
	}
}
