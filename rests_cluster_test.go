package troupe

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
)

// linksThatRest are tensors and messages of steps that go between tasks, in both directions.
func linksThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, on := range r.tasks {
		other := fmt.Sprintf("/job:w/task:%d", 1-i)
		for _, size := range []int64{1, 1 << 20} {
			s := op.NewScope()
			x := op.Placeholder(s.WithDevice(fmt.Sprintf("/job:w/task:%d", i)), tensor.Uint8, attr.Shape(shape.Of(size)))
			y := op.BitwiseXor(s.WithDevice(other), x, op.Const(s, uint8(1)))
			session := sessionOf(r.T, on, s)
			v, err := tensor.New(tensor.Host, tensor.Uint8, tensor.Shape{size})
			r.check(err)
			r.Cleanup(v.Release)
			all = append(all, restOperation{fmt.Sprintf("%d bytes from task %d to the other one and back", size, i), func() {
				got, err := session.Eval(r.bounded(), Feeds{x: v}, y)
				r.check(err)
				if b := got[0].Data(); int64(len(b)) != size || b[size-1] != v.Data()[size-1]^1 {
					r.Errorf("%d bytes came", len(b))
				}
				got[0].Release()
			}})
		}
	}
	return all
}

// unusedLinksThatRest are links that nothing holds, since the sessions that used them have been closed. They are closed, and the next session opens
// them again.
func unusedLinksThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, on := range r.tasks {
		all = append(all, restOperation{fmt.Sprintf("a session of task %d that is closed after a step on both tasks", i), func() {
			s := op.NewScope()
			far := op.Const(s.WithDevice(fmt.Sprintf("/job:w/task:%d", 1-i)), int64(3))
			session := sessionOf(r.T, on, s)
			n, err := Fetch[int64](r.bounded(), session, nil, far)
			r.check(err)
			if n != 3 {
				r.Errorf("%d came", n)
			}
			r.check(session.Close(r.bounded()))
		}})
	}
	return all
}

// orphansThatRest are the parts of a session whose master is lost: it starts anew, or comes back when the task that has the parts has forgotten them.
func orphansThatRest(r *resting) []restOperation {
	var counter *counterOf
	return []restOperation{
		{"a step", func() {
			if counter == nil {
				counter = r.counter(r.tasks[0], "orphaned")
			}
			counter.run()
		}},
		{"the master crashes, and starts anew", func() {
			r.kill(0)
			r.idle(15 * time.Second)
			r.restart(r.T, 0)
			r.idle(3 * time.Second)
			counter = nil
		}},
		{"the master is out of reach for longer than the lease", func() {
			r.host(0).Freeze(true)
			r.idle(DefaultLease + 15*time.Second)
			r.host(0).Freeze(false)
			r.idle(15 * time.Second)
		}},
	}
}

// gossipThatRests is what tasks know about each other, and what a program hears that watches them.
func gossipThatRests(r *resting) []restOperation {
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	var mu sync.Mutex
	watched := map[string]TaskStatus{}
	go func() {
		for s := range r.tasks[0].WatchTasks(ctx) {
			mu.Lock()
			watched[s.Task] = s
			mu.Unlock()
		}
	}()
	all := func(want ...string) {
		r.Helper()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, s := range r.tasks[0].Status() {
			if w := watched[s.Task]; w.State != want[i] || w.Boot != s.Boot {
				r.Errorf("who watches knows that task %d is %s (%s), and it is %s", i, w.State, w.Reason, want[i])
			}
		}
		for i, s := range r.tasks[:2] {
			for j, status := range s.Status() {
				if status.State != want[j] {
					r.Errorf("task %d knows that task %d is %s (%s), and it is %s", i, j, status.State, status.Reason, want[j])
				}
			}
		}
	}
	pass(3 * time.Second) // until all tasks know each other
	return []restOperation{
		{"a look", func() { all("up", "up", "up") }},
		{"a crash and a restart", func() {
			r.kill(2)
			r.idle(15 * time.Second)
			all("up", "up", "down")
			r.restart(r.T, 2)
			r.idle(3 * time.Second)
			all("up", "up", "up")
		}},
		{"an outage", func() {
			r.host(2).Freeze(true)
			r.idle(15 * time.Second)
			all("up", "up", "down")
			r.host(2).Freeze(false)
			r.idle(15 * time.Second)
			all("up", "up", "up")
		}},
	}
}

// papers are the certificates and the token of a cluster on a network in memory.
type papers struct {
	t         *testing.T
	dir       string
	authority *access.Authority
	expiry    time.Time // of the last one issued
}

// paperTime is how long certificates and tokens are valid: some rests are shorter, and some longer.
const paperTime = 90 * time.Minute

// signedLeeway is for how much longer a signed token is accepted, since the issuer's clock may be another one.
const signedLeeway = 30 * time.Second

// noticed bounds the time within which changed files are read again.
const noticed = 5 * time.Second

func newPapers(t *testing.T) *papers {
	t.Helper()
	authority, made, err := access.NewAuthority("test", time.Now().Add(10*365*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	p := &papers{t: t, dir: t.TempDir(), authority: authority}
	p.write("ca.pem", made.Cert)
	return p
}

func (p *papers) path(name string) string { return filepath.Join(p.dir, name) }

func (p *papers) write(name string, text []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// certify writes certificates for the tasks.
func (p *papers) certify(tasks int, until time.Time) {
	p.t.Helper()
	p.expiry = until
	for i := range tasks {
		pair, err := p.authority.Issue(access.Request{Name: access.TaskName("w", i), Hosts: []string{fmt.Sprintf("10.0.0.%d", i+1)}, Until: until})
		if err != nil {
			p.t.Fatal(err)
		}
		p.write(fmt.Sprintf("%d.pem", i), pair.Cert)
		p.write(fmt.Sprintf("%d.key", i), pair.Key)
	}
}

// of returns the credentials of a task, or those of a client, which has no certificate.
func (p *papers) of(task int) *access.Credentials {
	p.t.Helper()
	config := access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: p.path("ca.pem")}, Anonymous: true, Log: slog.New(slog.DiscardHandler)}
	if task >= 0 {
		config.Cert, config.Key = p.path(fmt.Sprintf("%d.pem", task)), p.path(fmt.Sprintf("%d.key", task))
	}
	k, err := access.LoadCredentials(config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(k.Close)
	return k
}

// tokensThatRest are the steps of a client whose token expires and is replaced.
func tokensThatRest(t *testing.T) (options func(task int) []Option, make func(r *resting) []restOperation) {
	p := newPapers(t)
	p.certify(1, time.Now().Add(9*365*24*time.Hour))
	p.write("secret", access.NewSecret())
	secret, err := access.LoadSecret(p.path("secret"))
	if err != nil {
		t.Fatal(err)
	}
	replace := func() {
		p.expiry = time.Now().Add(paperTime)
		token, line, err := access.NewToken("alice", p.expiry)
		if err != nil {
			t.Fatal(err)
		}
		p.write("token", []byte(token+"\n"))
		p.write("tokens", []byte(line+"\n"))
		signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "bob", "exp": p.expiry.Unix()}).SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		p.write("signed", []byte(signed+"\n"))
	}
	replace()
	tokens, err := access.LoadTokens(access.TokenConfig{File: p.path("tokens"), Keys: p.path("secret"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	files := map[string]*access.TokenFile{}
	for _, name := range []string{"token", "signed"} {
		if files[name], err = access.LoadTokenFile(p.path(name), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(files[name].Close)
	}
	server := p.of(0)
	return func(int) []Option { return []Option{WithCredentials(server), WithTokens(tokens)} }, func(r *resting) []restOperation {
		all := []restOperation{{"the tokens are replaced", func() {
			replace()
			pass(noticed)
		}}}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			c, _ := r.dial(0, client.WithCredentials(p.of(-1)), client.WithTokenFile(files[name]))
			s := op.NewScope()
			x := op.Const(s, int64(7))
			session := sessionOf(r.T, c, s)
			step := func() error {
				_, err := Fetch[int64](r.bounded(), session, nil, x)
				return err
			}
			all = append(all, restOperation{"a step with the " + name + " one", func() {
				err := step()
				if time.Now().After(p.expiry) {
					late := name == "signed" && time.Since(p.expiry) <= signedLeeway
					if (err != nil || !late) && (status.CodeOf(err) != status.Unauthenticated || !strings.Contains(err.Error(), "expired")) {
						r.Errorf("with a token that has expired: %v", err)
					}
					replace()
					pass(noticed)
					err = step()
				}
				r.check(err)
			}})
		}
		return all
	}
}

// certificatesThatRest are the steps of tasks whose certificates expire and are replaced.
func certificatesThatRest(t *testing.T) (options func(task int) []Option, make func(r *resting) []restOperation) {
	p := newPapers(t)
	p.certify(2, time.Now().Add(paperTime))
	all := []*access.Credentials{p.of(0), p.of(1)}
	p.write("secret", access.NewSecret())
	return func(task int) []Option { return []Option{WithCredentials(all[task]), WithSecretFile(p.path("secret"))} }, func(r *resting) []restOperation {
		counter := r.counter(r.tasks[0], "certified")
		replace := func() {
			p.certify(2, time.Now().Add(paperTime))
			pass(noticed)
		}
		return []restOperation{
			{"a step", func() {
				if time.Now().After(p.expiry) {
					// An existing link may continue. A new one is refused, by name.
					_, err := Fetch[int64](r.bounded(), counter.session, nil, counter.count)
					if err == nil {
						counter.want++
					} else if !strings.Contains(err.Error(), "expired") {
						r.Errorf("with certificates that have expired: %v", err)
					}
					replace()
				}
				counter.run()
			}},
			{"the certificates are replaced", replace},
		}
	}
}
