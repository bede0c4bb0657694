package local

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
)

func TestTasks(t *testing.T) {
	jobs, err := ParseTasks("ps=1, worker=2")
	if err != nil || !slices.Equal(jobs, []Job{{"ps", 1}, {"worker", 2}}) {
		t.Errorf("%v, %v", jobs, err)
	}
	for text, want := range map[string]string{
		"":                 "does not say how many tasks",
		"ps":               "does not say how many tasks",
		"ps=":              "does not say how many tasks",
		"ps=0":             "does not say how many tasks",
		"ps=1,,w=1":        `"" does not say`,
		"ps=200,w=200":     "more than 256 tasks",
		"ps=9999999999999": "more than 256 tasks",
	} {
		if jobs, err := ParseTasks(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, jobs, err)
		}
	}
}

var silent = troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

func TestClusterInOneProcess(t *testing.T) {
	c, err := Start(Plan{Jobs: []Job{{"ps", 1}, {"worker", 2}}, Host: "127.0.0.1"}, silent)
	if err != nil {
		t.Fatal(err)
	}
	for i, task := range c.Spec.Tasks() {
		if c.Servers[i].Task() != task.Name() || c.Target(task.Job, task.Index) != "grpc://"+task.Address {
			t.Errorf("%s is at %s", c.Servers[i].Task(), c.Servers[i].Target())
		}
	}
	if c.Target("chief", 0) != "" {
		t.Error("a task that is not there has a target")
	}
	if err := c.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestNothingIsLeftOfAClusterThatDoesNotStart(t *testing.T) {
	// The second of two ports is taken; the first must be free again afterwards.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	_, err = Start(Plan{Jobs: []Job{{"w", 2}}, Host: "127.0.0.1", Port: taken - 1}, silent)
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
	_, err := Start(Plan{Jobs: []Job{{"w", 1}}, Host: "192.0.2.1"}, silent)
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "No free ports can be had at 192.0.2.1") {
		t.Error(err)
	}
	if _, err := Start(Plan{Jobs: []Job{{"w", 2}}, Host: "127.0.0.1", Port: 65535}, silent); status.CodeOf(err) != status.InvalidArgument {
		t.Error(err)
	}
}
