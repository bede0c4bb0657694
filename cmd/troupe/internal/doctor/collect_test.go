package doctor

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// see waits until all tasks of a cluster see each other.
func see(t *testing.T, cluster *troupe.LocalCluster) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		down := slices.IndexFunc(cluster.Servers(), func(s *troupe.Server) bool {
			return slices.ContainsFunc(s.Status(), func(task troupe.TaskStatus) bool { return task.State != "up" })
		})
		if down < 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not see all tasks: %+v", cluster.Servers()[down].Task(), cluster.Servers()[down].Status())
		}
	}
}

// TestCollect looks at a cluster whose tasks are up, then at a spec with a server of another protocol and a port
// without a listener.
func TestCollect(t *testing.T) {
	cluster, err := troupe.NewLocalCluster(t.Context(), map[string]int{"ps": 1, "worker": 1}, troupe.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Stop(t.Context())
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	see(t, cluster)
	// Nothing listens at the first target: the second one answers.
	f := Collect(t.Context(), Config{Target: closed.Addr().String() + ", " + cluster.Servers()[0].Target()})
	if len(f.Tasks) != 2 {
		t.Fatalf("%d tasks, not 2: %+v", len(f.Tasks), f)
	}
	for _, k := range f.Tasks {
		if k.Answers != Troupe || k.TCP.Outcome != Answered || k.UDP.Outcome != Answered || !k.Local || k.Serves() == nil || k.RoundTrip <= 0 {
			t.Errorf("%s: %+v", k.Name, k)
		}
	}
	for _, g := range Check(f) {
		if g.Severity == Error {
			t.Errorf("a cluster that is up has the finding %+v", g)
		}
	}

	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan error, 1)
	go func() { served <- web.Serve(other) }()
	defer func() {
		web.Close()
		<-served
	}()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	f = Collect(t.Context(), Config{Cluster: "ps=" + other.Addr().String() + "," + gone, Job: "ps"})
	if len(f.Tasks) != 2 || f.Tasks[0].Answers != Other || !strings.Contains(f.Tasks[0].Why, "HTTP/1.") || f.Tasks[1].TCP.Outcome != Refused || f.Self != ps {
		t.Errorf("%+v", f)
	}
}

// TestCollectOfAClusterWithASecret looks at tasks that have a secret, and no certificates: they answer no packet of somebody without it.
func TestCollectOfAClusterWithASecret(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, access.NewSecret(), 0o600); err != nil {
		t.Fatal(err)
	}
	a := spectest.Addresses(t, 2)
	for task := range a {
		s, err := troupe.NewServer(t.Context(), troupe.ClusterSpec{"worker": a}, troupe.WithTask(task), troupe.WithSecretFile(secret), troupe.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop(t.Context())
	}
	f := Collect(t.Context(), Config{Target: a[0]})
	if len(f.Tasks) != 2 {
		t.Fatalf("%d tasks, not 2: %+v", len(f.Tasks), f)
	}
	for _, k := range f.Tasks {
		if k.Answers != Troupe || k.UDP.Outcome != NotTried {
			t.Errorf("%s answers as %s and over UDP %s", k.Name, k.Answers, k.UDP.Outcome)
		}
	}
	if found := packets(f); len(found) > 0 {
		t.Errorf("tasks with a secret have the finding %+v", found)
	}
}

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  float64
	}{
		{nil, 0},
		{map[string]string{"cpu.max": "150000 100000\n"}, 1.5},
		{map[string]string{"cpu.max": "max 100000\n"}, 0},
		{map[string]string{"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2},
		{map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, "sys/fs/cgroup", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := quota(root); got != c.want {
			t.Errorf("%v: %v processors, not %v", c.files, got, c.want)
		}
	}
}
