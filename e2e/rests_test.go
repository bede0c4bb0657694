//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// restTime is how long processes are idle: a link without traffic is closed after a minute, and so is a browser's connection.
const restTime = 65 * time.Second

// TestProcessesThatRest uses real processes before and after they have been idle. TestRests of the root package does so in simulated time,
// for up to a day.
func TestProcessesThatRest(t *testing.T) {
	t.Parallel() // it waits more than it computes
	if !extent.Check() {
		t.Skip("it rests for more than a minute: TROUPE_TESTS=check")
	}
	var after []func()
	for _, before := range []func(t *testing.T) func(){restOfPython, restOfActors, restOfDashboard, restOfMemory} {
		after = append(after, before(t))
	}
	over := time.NewTimer(restTime)
	defer over.Stop()
	<-over.C
	for _, f := range after {
		f()
	}
}

// restOfPython leaves sessions of TensorFlow's client idle: with a cluster, through troupe proxy, and with a server of the Python package.
func restOfPython(t *testing.T) (after func()) {
	python := needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	proxy := proxiedCluster(t)
	cmd := exec.Command(python, "clients/rests.py", c.task("worker", 0).target(), proxy)
	cmd.Env = append(os.Environ(), packageEnv(t)...)
	client, stdin, lines := converse(t, "clients/rests.py", cmd)
	overdue := time.AfterFunc(extent.Slack(restTime+2*time.Minute), client.kill)
	t.Cleanup(func() {
		overdue.Stop()
		client.kill()
	})
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the client says %q, %v, not %q\n%s", lines.Text(), lines.Err(), want, client.log.tail())
		}
	}
	says("rests")
	return func() {
		if err := stdin.Close(); err != nil {
			t.Fatal(err)
		}
		says("done")
		if code, err := client.wait(extent.Slack(stopTime)); err != nil || code != 0 {
			t.Errorf("the client ended with %d, %v\n%s", code, err, client.log.tail())
		}
	}
}

// proxiedCluster starts a task that demands certificates, and returns the target of a proxy that has one.
func proxiedCluster(t *testing.T) (target string) {
	t.Helper()
	c := declare(t, "ps=1")
	certs := filepath.Join(t.TempDir(), "certs")
	if out, err := exec.Command(binary(t), "certs", "init", "--cluster", c.spec, "--out", certs, "--client", "alice").CombinedOutput(); err != nil {
		t.Fatalf("troupe certs: %v\n%s", err, out)
	}
	files := func(name string) access.CredentialFiles {
		return access.CredentialFiles{Cert: filepath.Join(certs, name+".pem"), Key: filepath.Join(certs, name+"-key.pem"), CA: filepath.Join(certs, "ca.pem")}
	}
	identity := func(name string) []string {
		f := files(name)
		return []string{"--tls-cert", f.Cert, "--tls-key", f.Key, "--tls-ca", f.CA}
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	ps := c.task("ps", 0)
	ps.flags = identity("ps-0")
	c.start(t, ps)
	waitSecured(t, ps.target(), files("client-alice"))
	return launchProxy(t, ps.addr, identity("client-alice"))
}

// restOfActors leaves programs' actors idle. Afterwards, they receive messages and requests, and their watchers learn of their ends.
func restOfActors(t *testing.T) (after func()) {
	ps, spawn := playingServer(t)
	first, firstTask := player(t, ps.Address())
	_, secondTask := player(t, ps.Address())
	adds := func(ref troupe.ActorRef, n, want int64) {
		t.Helper()
		if err := ps.Send(patient(t), ref, wrapperspb.Int64(n)); err != nil {
			t.Error(err)
			return
		}
		sum, err := troupe.Ask[*wrapperspb.Int64Value](patient(t), ps, ref, &emptypb.Empty{})
		if err != nil || sum.Value != want {
			t.Errorf("%v has %v, %v; want %d", ref, sum, err, want)
		}
	}
	watch := func(ref troupe.ActorRef) <-chan troupe.ActorEnded {
		t.Helper()
		ended, err := ps.WatchActor(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	// In each process, one actor stops afterwards, and one is killed with its process. An actor of the other process watches each.
	killed, stopped := spawn(firstTask, "killed"), spawn(secondTask, "stopped")
	ofKilled, ofStopped := spawn(secondTask, "of_killed"), spawn(firstTask, "of_stopped")
	for watcher, ref := range map[troupe.ActorRef]troupe.ActorRef{ofKilled: killed, ofStopped: stopped} {
		if _, err := troupe.Ask[*emptypb.Empty](patient(t), ps, watcher, wrapperspb.String(ref.String())); err != nil {
			t.Fatal(err)
		}
	}
	ofPS, stoppedForPS := watch(killed), watch(stopped)
	told := func(watcher troupe.ActorRef) <-chan string {
		asked := make(chan string, 1)
		go func() {
			text, err := troupe.Ask[*wrapperspb.StringValue](t.Context(), ps, watcher, wrapperspb.Bool(true))
			asked <- fmt.Sprint(text.GetValue(), err)
		}()
		return asked
	}
	toldStop, toldKill := told(ofStopped), told(ofKilled)
	for _, ref := range []troupe.ActorRef{killed, stopped, ofKilled, ofStopped} {
		adds(ref, 1, 1)
	}
	return func() {
		for _, ref := range []troupe.ActorRef{killed, stopped, ofKilled, ofStopped} {
			adds(ref, 2, 3)
		}
		over := time.NewTimer(extent.Slack(20 * time.Second))
		defer over.Stop()
		hears := func(who string, ended <-chan troupe.ActorEnded, code status.Code) {
			t.Helper()
			select {
			case e := <-ended:
				if status.CodeOf(e.Err) != code {
					t.Errorf("%s hears of %v", who, e)
				}
			case <-over.C:
				t.Fatalf("%s hears nothing", who)
			}
		}
		hearsText := func(who string, told <-chan string, want string) {
			t.Helper()
			select {
			case text := <-told:
				if !strings.Contains(text, want) {
					t.Errorf("%s hears %s", who, text)
				}
			case <-over.C:
				t.Fatalf("%s hears nothing", who)
			}
		}
		if err := ps.Send(patient(t), stopped, wrapperspb.UInt64(0)); err != nil {
			t.Fatal(err)
		}
		hears("the ps, of the stop,", stoppedForPS, status.OK)
		hearsText("the actor, of the stop,", toldStop, "stopped: ")
		first.kill()
		hears("the ps, of the kill,", ofPS, status.Unavailable)
		hearsText("the actor, of the kill,", toldKill, "killed: ")
	}
}

// restOfDashboard leaves a browser's connection to the HTTP endpoint of a task idle, and the links of that task, over which the page looks
// at the others.
func restOfDashboard(t *testing.T) (after func()) {
	c := declare(t, "ps=1,worker=1")
	endpoint := spectest.Address(t)
	c.task("ps", 0).flags = []string{"--http", endpoint}
	c.startAll(t)
	browser := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: extent.Slack(20 * time.Second)}
	t.Cleanup(browser.CloseIdleConnections)
	looks := func() (reused bool) {
		t.Helper()
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+endpoint+"/ui/api/see?sections=tasks,events", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != http.StatusOK || !strings.Contains(string(text), "/job:worker/replica:0/task:0") {
			t.Errorf("the page gets %s, %v: %s", a.Status, err, text)
		}
		return reused
	}
	looks()
	if !looks() {
		t.Error("the connection is not kept between two looks")
	}
	return func() {
		looks()
		if !looks() {
			t.Error("the connection is not kept between two looks after the rest")
		}
	}
}

// restOfMemory leaves a task idle after a step that used much memory. The task must return it to the system.
func restOfMemory(t *testing.T) (after func()) {
	c := newCluster(t, "worker=1")
	worker := c.task("worker", 0)
	s := op.NewScope()
	n := op.Placeholder(s.WithName("n"), tensor.Int32)
	op.Sum(s.WithName("sum"), op.Fill(s, n, op.Const(s, float32(1))), op.Const(s, []int32{0}))
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := dialTarget(t, worker.target()).NewSession(patient(t), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	const mebibytes = 256
	uses := func() {
		t.Helper()
		dims, err := tensor.FromSlice(tensor.Int32, tensor.Shape{1}, []int32{mebibytes << 18})
		if err != nil {
			t.Fatal(err)
		}
		out, err := session.Run(patient(t), map[string]*tensor.Tensor{"n:0": dims}, []string{"sum:0"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		out[0].Release()
	}
	before := worker.proc.residentMiB(t)
	uses()
	full := worker.proc.residentMiB(t)
	return func() {
		rested := worker.proc.residentMiB(t)
		t.Logf("%.0f MiB before the step, %.0f MiB after it, %.0f MiB after the rest", before, full, rested)
		if full < before+mebibytes/2 || rested > before+mebibytes/4 {
			t.Errorf("the task has %.0f MiB before the step, %.0f MiB after it, %.0f MiB after the rest", before, full, rested)
		}
		uses()
	}
}
