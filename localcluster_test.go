package troupe

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

func TestClusterInOneProcess(t *testing.T) {
	parallel(t)
	c, err := NewLocalCluster(t.Context(), map[string]int{"ps": 1, "worker": 2}, silent)
	if err != nil {
		t.Fatal(err)
	}
	for i, task := range c.spec.Tasks() {
		if s := c.Servers()[i]; s.Task() != task.Name() || c.Server(task.Job, task.Index) != s || s.Target() != "grpc://"+task.Address {
			t.Errorf("%s is at %s", s.Task(), s.Target())
		}
	}
	if c.Server("chief", 0) != nil {
		t.Error("there is a server of a task that is not there")
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestLogOfTrials: what a program tries something out with does not fill its default log, at the start and the end.
func TestLogOfTrials(t *testing.T) { // not parallel: it replaces the default logger
	var log logLines
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	cluster, err := NewLocalCluster(t.Context(), map[string]int{"worker": 2})
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewLocalServer(t.Context(), WithActor("first", func(*ActorContext, any) (Actor, error) { return Handlers(), nil }, Virtual{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cluster.Stop(t.Context()), server.Stop(t.Context())); err != nil {
		t.Error(err)
	}
	if n := log.count(); n != 0 {
		t.Errorf("they logged %d lines: %q", n, log.text)
	}
}

// A cluster in one process logs once that a task is up, not once for each other task, and likewise that it ends.
func TestTasksOfOneProcessAreLoggedOnce(t *testing.T) {
	parallel(t)
	var log logLines
	const tasks = 4
	c, err := NewLocalCluster(t.Context(), map[string]int{"worker": tasks}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Servers() {
		up := map[string]bool{}
		for status := range s.WatchTasks(deadline(t)) {
			if status.State == "up" {
				up[status.Task] = true
			}
			if len(up) == tasks {
				break
			}
		}
		if len(up) < tasks {
			t.Fatalf("%s sees %v", s.Task(), up)
		}
	}
	gone := c.Servers()[0]
	stop(t, gone)
	for _, s := range c.Servers()[1:] {
		for status := range s.WatchTasks(deadline(t)) {
			if status.Task == gone.Task() && status.State == "down" {
				break
			}
		}
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	for _, s := range c.Servers() {
		if n := log.count(`msg="task up"`, "task="+s.Task()+" "); n != 1 {
			t.Errorf("the log has %d lines that %s is up", n, s.Task())
		}
	}
	if n := log.count(`msg="task down"`, "task="+gone.Task()+" "); n != 1 {
		t.Errorf("the log has %d lines that %s is down", n, gone.Task())
	}
}

func TestNothingIsLeftOfAClusterThatDoesNotStart(t *testing.T) {
	parallel(t)
	// The second of two ports is taken; the first must be free again afterwards.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	_, err = NewLocalCluster(t.Context(), map[string]int{"w": 2}, WithLocalPorts("127.0.0.1", taken-1), silent)
	if status.CodeOf(err) != status.Unknown {
		t.Fatalf("%v: %v", status.CodeOf(err), err)
	}
	if strings.Contains(err.Error(), "port "+strconv.Itoa(taken-1)+" is taken") {
		t.Skip("somebody else has the port before it")
	}
	first, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(taken-1)))
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
}

func TestHostsThatAreNotHere(t *testing.T) {
	_, err := NewLocalCluster(t.Context(), map[string]int{"w": 1}, WithLocalPorts("192.0.2.1", 0), silent)
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "No free ports are available at 192.0.2.1") {
		t.Error(err)
	}
	if _, err := NewLocalCluster(t.Context(), map[string]int{"w": 2}, WithLocalPorts("127.0.0.1", 65535), silent); status.CodeOf(err) != status.InvalidArgument {
		t.Error(err)
	}
	for _, n := range []int{-1, 0, 257} {
		if _, err := NewLocalCluster(t.Context(), map[string]int{"v": 1, "w": n}, silent); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%d tasks: %v", n, err)
		}
	}
}
