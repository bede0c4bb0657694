//go:build unix

package e2e

import (
	"fmt"
	"io"
	"log/slog"
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
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// processRests are how long processes are idle between operations. Tests give what may end sooner a short time, where it can be set, so that it ends within
// longProcessRest and not within the first of these.
var processRests = []time.Duration{time.Second, longProcessRest}

const (
	longProcessRest = 6 * time.Second
	// setTime is what such tests set: leases and tokens last so long.
	setTime = 3 * time.Second
	// linkRest is longer than what cannot be set: a link without traffic is closed after a minute, and so is a browser's connection. Only nightly runs
	// rest for that long.
	linkRest = 65 * time.Second
)

// processOperation is something that users do. It works in whatever state the earlier operations have left.
type processOperation struct {
	name string
	do   func(rested time.Duration) // after the last operation
}

// processKinds are what may be idle. Each kind begins with all of it in use, and may end with operations that are done once.
var processKinds = map[string]func(t *testing.T) (operations []processOperation, end func()){
	"python": restOfPython, "actors": restOfActors, "dashboard": restOfDashboard, "memory": restOfMemory, "leases": restOfLeases, "tokens": restOfTokens,
}

// TestProcessesThatRest uses real processes before and after they have been idle: each pair of operations of a kind with short rests between them, and
// in nightly runs all operations with a long one. TestRests of the root package does so in simulated time, for up to a day.
func TestProcessesThatRest(t *testing.T) {
	t.Parallel() // it waits more than it computes
	for kind, begin := range processKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			operations, end := begin(t)
			rested := time.Duration(0)
			do := func(o processOperation, after string) {
				o.do(rested)
				if rested = 0; t.Failed() {
					t.Fatalf("%s, after %s", o.name, after)
				}
			}
			rest := func(d time.Duration) {
				over := time.NewTimer(d)
				defer over.Stop()
				<-over.C
				rested = d
			}
			for _, d := range processRests {
				for _, first := range operations {
					for _, second := range operations {
						do(first, "the last pair")
						rest(d)
						do(second, fmt.Sprintf("%s, and a rest of %v", first.name, d))
					}
				}
			}
			if extent.Check() {
				rest(linkRest)
				for _, o := range operations {
					do(o, fmt.Sprintf("a rest of %v of all", linkRest))
				}
			}
			if end != nil {
				end()
			}
		})
	}
}

// restOfPython leaves sessions of TensorFlow's client idle: with a cluster, through troupe proxy, and with a server of the Python package, a child of
// the program.
func restOfPython(t *testing.T) (operations []processOperation, end func()) {
	python := needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	proxy := proxiedCluster(t)
	cmd := exec.Command(python, "clients/rests.py", c.task("worker", 0).target(), proxy)
	cmd.Env = append(os.Environ(), packageEnv(t)...)
	client, stdin, lines := converse(t, "clients/rests.py", cmd)
	overdue := time.AfterFunc(extent.Slack(linkRest+2*time.Minute), client.kill)
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
	return []processOperation{{"all that the sessions have", func(time.Duration) {
			if _, err := io.WriteString(stdin, "go on\n"); err != nil {
				t.Fatal(err)
			}
			says("rests")
		}}}, func() {
			if err := stdin.Close(); err != nil {
				t.Fatal(err)
			}
			says("done")
			if code, err := client.wait(extent.Slack(stopTime)); err != nil || code != 0 {
				t.Errorf("the client ended with %d, %v\n%s", code, err, client.log.tail())
			}
		}
}

// restOfLeases leaves sessions idle whose clients lose their connections: they continue if they come back within the lease, and get ABORTED otherwise.
func restOfLeases(t *testing.T) (operations []processOperation, end func()) {
	c := newCluster(t, "ps=1,worker=1", "--lease", setTime.String())
	between := newProxy(t, c.task("worker", 0).addr)
	through := dialTarget(t, between.target())
	session, step, total := (*troupe.Session)(nil), (func() (int64, error))(nil), int64(0)
	open := func() {
		t.Helper()
		s := op.NewScope().WithDevice("/job:ps/task:0")
		v := op.VariableV2(s, shape.Of(), tensor.Int64, attr.SharedName("leased"))
		start, count := op.Assign(s, v, op.Const(s, int64(0))).Op, op.AssignAdd(s, v, op.Const(s, int64(1)))
		def, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		if session, err = through.NewSession(patient(t), def, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := session.Eval(patient(t), nil, start); err != nil {
			t.Fatal(err)
		}
		total = 0
		step = func() (int64, error) { return troupe.Fetch[int64](patient(t), session, nil, count) }
	}
	open()
	gone := time.Time{}
	return []processOperation{
		{"the connection breaks", func(time.Duration) {
			between.cut()
			if gone.IsZero() {
				gone = time.Now()
			}
		}},
		{"a step", func(time.Duration) {
			began := time.Now()
			n, err := step()
			if !gone.IsZero() {
				least, most := began.Sub(gone), time.Since(gone)
				ended := status.CodeOf(err) == status.Aborted && strings.Contains(err.Error(), "lease")
				if ended && most < setTime || !ended && (err != nil || least > setTime+2*time.Second) {
					t.Errorf("a session with a lease of %v, whose client was away for %v: %v", setTime, least, err)
				}
				gone = time.Time{}
				if ended {
					open()
					n, err = step()
				}
			}
			if total++; err != nil || n != total {
				t.Errorf("the counter is %d, %v, not %d", n, err, total)
			}
		}},
	}, nil
}

// restOfTokens leaves a client idle whose token expires, and is replaced.
func restOfTokens(t *testing.T) (operations []processOperation, end func()) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var former, expiry time.Time // of the token before, which may be in use until the files have been read again, and of the token
	replace := func() {
		t.Helper()
		former, expiry = expiry, time.Now().Add(setTime)
		token, line, err := access.NewToken("alice", expiry)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"token": token, "tokens": line} {
			if err := os.WriteFile(at(name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace()
	file, err := access.LoadTokenFile(at("token"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	c := declare(t, "worker=1", "--tokens", at("tokens"))
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	c.start(t, c.task("worker", 0))
	alice, err := client.Dial(t.Context(), c.task("worker", 0).target(), client.WithTokenFile(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := alice.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	looks := func() error {
		_, err := alice.Devices(patient(t))
		return err
	}
	anew := func(time.Duration) {
		t.Helper()
		eventually(t, 20*time.Second, "a new token", func() error { // the files are read again in their own time
			if time.Until(expiry) < setTime/2 {
				replace()
			}
			return looks()
		})
	}
	anew(0)
	return []processOperation{{"a call", func(time.Duration) {
		began := time.Now()
		err := looks()
		ended := time.Now()
		switch {
		case err == nil && began.After(expiry.Add(time.Second)): // the token has it in seconds
			t.Errorf("a token that has expired %v ago is accepted", began.Sub(expiry))
		case err != nil && (ended.Before(former.Add(-time.Second)) || status.CodeOf(err) != status.Unauthenticated || !strings.Contains(err.Error(), "expired")):
			t.Errorf("a token that expires in %v: %v", expiry.Sub(ended), err)
		case err != nil:
			anew(0)
		}
	}}, {"the token is replaced", anew}}, nil
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

// restOfActors leaves programs' actors idle, which receive messages and requests. In the end, their watchers learn of their ends.
func restOfActors(t *testing.T) (operations []processOperation, end func()) {
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
	sum := int64(0)
	return []processOperation{{"messages and requests", func(time.Duration) {
			sum += 2
			for _, ref := range []troupe.ActorRef{killed, stopped, ofKilled, ofStopped} {
				adds(ref, 2, sum)
			}
		}}}, func() {
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
func restOfDashboard(t *testing.T) (operations []processOperation, end func()) {
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
	return []processOperation{{"two looks", func(rested time.Duration) {
		if reused := looks(); !reused && rested < linkRest {
			t.Errorf("the connection is not kept for %v", rested)
		}
		if !looks() {
			t.Error("the connection is not kept between two looks")
		}
	}}}, nil
}

// restOfMemory leaves a task idle after a step that used much memory. The task must return it to the system.
func restOfMemory(t *testing.T) (operations []processOperation, end func()) {
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
	full := 0.0
	return []processOperation{{"a step that uses much memory", func(rested time.Duration) {
		if idle := worker.proc.residentMiB(t); rested >= longProcessRest && (full < before+mebibytes/2 || idle > before+mebibytes/4) {
			t.Errorf("the task has %.0f MiB before the first step, %.0f MiB after one, %.0f MiB after a rest of %v", before, full, idle, rested)
		}
		uses()
		full = worker.proc.residentMiB(t)
	}}}, nil
}
