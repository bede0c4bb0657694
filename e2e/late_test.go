//go:build unix

package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// TestLate runs sessions that get nothing but the end of what a former one has closed, which TensorFlow's contract wants. Operators learn of each,
// once, by name.
func TestLate(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	got := program(t, drivers.borrow(t), "late.py", c.task("worker", 0).target(), "_run")
	expect(t, "what the sessions get", got, "dequeue 3 0, reader 2 0, dataset 3 0, iterator 4 0")
	troupe := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(binary(t), append(args, c.task("worker", 0).addr)...).CombinedOutput()
		if err != nil {
			t.Fatalf("troupe %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var events struct {
		Tasks []struct {
			Events []struct{ Kind, Subject, Text string }
		}
	}
	if err := json.Unmarshal([]byte(troupe("events", "--json")), &events); err != nil {
		t.Fatal(err)
	}
	missed := map[string]int{}
	for _, task := range events.Tasks {
		for _, e := range task.Events {
			if !strings.HasSuffix(e.Kind, " missed") {
				continue
			}
			missed[e.Kind+" "+e.Subject]++
			for _, want := range []string{"and no element", "ago (20", "by session "} {
				if !strings.Contains(e.Text, want) {
					t.Errorf("the event of %s does not say %q: %s", e.Subject, want, e.Text)
				}
			}
		}
	}
	log := c.task("ps", 0).proc.log.String()
	for _, name := range []string{"queue missed dequeue_run", "queue missed reader_run", "queue missed dataset_run", "iterator missed iterator_run"} {
		what, _, _ := strings.Cut(name, " ")
		line := what + "=" + name[strings.LastIndexByte(name, ' ')+1:]
		if missed[name] != 1 || strings.Count(log, line) != 1 {
			t.Errorf("%s: %d events; %d lines of the log have %s", name, missed[name], strings.Count(log, line), line)
		}
	}
	if len(missed) != 4 {
		t.Errorf("the events are %v", missed)
	}
	why := troupe("why")
	for _, want := range []string{"nothing is blocked", "it got the end of the FIFOQueue 'dequeue_run' on /job:ps/replica:0/task:0 and no element: the queue was closed "} {
		if !strings.Contains(why, want) {
			t.Errorf("troupe why does not say %q:\n%s", want, why)
		}
	}
	if out := troupe("queues"); strings.Count(out, "1 session opened later got nothing but its end") != 3 {
		t.Errorf("troupe queues says\n%s", out)
	}
	if t.Failed() {
		t.Log(log)
	}
}
