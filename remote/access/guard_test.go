package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

var far = Peer{Address: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}}

func guardOf(t *testing.T, policy string) (*Guard, func(policy string)) {
	t.Helper()
	path := file(t, policy)
	f, err := LoadPolicy(PolicyConfig{File: path, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return NewGuard(nil, f, nil), func(policy string) {
		if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRightsEndWithTheNextCall checks that what a reload takes away ends at the next call over a known connection, and that what it gives
// starts there.
func TestRightsEndWithTheNextCall(t *testing.T) {
	g, reload := guardOf(t, "rules: [{who: network, may: open}]")
	admit := func() *Rights {
		r, err := g.Admit(1, far)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	s, err := g.OpenSession(admit())
	if err != nil {
		t.Fatal(err)
	}
	if r := admit(); r != admit() || s.Use(r) != nil || s.Rights().Scope().Op("ReadFile") != nil {
		t.Error("the second call of a connection is not decided like the first one")
	}
	reload(`rules: [{who: network, may: open, ops: {deny: "@files"}}]`)
	if err := s.Use(admit()); err != nil {
		t.Error(err)
	}
	if err := s.Rights().Scope().Op("ReadFile"); !contains(err, "@files") {
		t.Errorf("after the reload: %v", err)
	}
	reload("rules: []")
	if err := s.Use(admit()); status.CodeOf(err) != status.PermissionDenied {
		t.Errorf("after its rights were taken away, the owner gets %v", err)
	}
	s.Close()
}

func TestSessionsBelongToTheirOwner(t *testing.T) {
	g, _ := guardOf(t, "rules: [{who: loopback, may: [open, others]}, {who: any, may: open}]")
	as := func(i Identity) *Rights { return g.policy.Policy().Rights(i) }
	alice := as(Identity{Kind: Token, Name: ClientName("alice")})
	s, err := g.OpenSession(alice)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who  Identity
		want string
	}{
		{Identity{Kind: Certificate, Name: ClientName("alice")}, ""},
		{Identity{Kind: Token, Name: ClientName("bob")}, "client:bob may not use a session that somebody else opened"},
		{Identity{Kind: Network}, "network may not use"},
		{Identity{Kind: Loopback}, ""},
	} {
		if err := s.Use(as(c.who)); !contains(err, c.want) {
			t.Errorf("%s: %v, want %q", c.who, err, c.want)
		}
		if who := s.Rights().Who(); who.Name != ClientName("alice") {
			t.Errorf("after a call of %s, the session runs with the rights of %s", c.who, who)
		}
	}
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := parse(t, "rules: [{who: any, may: open, limits: {sessions: 2, steps: 3, steps_per_second: 5}}]")
		g := NewGuard(nil, nil, nil)
		alice, bob := p.Rights(Identity{Kind: Token, Name: ClientName("alice")}), p.Rights(Identity{Kind: Token, Name: ClientName("bob")})
		open := func(r *Rights) (*Grant, error) { return g.OpenSession(r) }
		a, err := open(alice)
		if err != nil {
			t.Fatal(err)
		}
		b, err := open(alice)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(alice); !contains(err, "has 2 sessions open") || status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("a third session: %v", err)
		}
		if _, err := open(bob); err != nil {
			t.Errorf("somebody else's session: %v", err)
		}
		for i := range 4 {
			if err := []*Grant{a, b}[i%2].BeginStep(); (err != nil) != (i == 3) {
				t.Errorf("step %d: %v", i, err)
			} else if i == 3 && !contains(err, "runs 3 steps") {
				t.Error(err)
			}
		}
		begun := 0
		for range 10 {
			a.EndStep()
			if err := a.BeginStep(); err == nil {
				begun++
			} else if !contains(err, "more than 5 steps in a second") {
				t.Error(err)
			} else {
				a.account.steps++ // as if the step had started
			}
		}
		if begun != 2 {
			t.Errorf("%d more steps began in the first second, want 2", begun)
		}
		time.Sleep(time.Second)
		a.EndStep()
		if err := a.BeginStep(); err != nil {
			t.Errorf("a second later: %v", err)
		}
		a.Close()
		a.Close()
		if c, err := open(alice); err != nil {
			t.Errorf("after one was closed: %v", err)
		} else {
			c.Close()
		}
		b.Close()
	})
}

// TestRefusedSessionsDoNotCount: a session that is refused for the limit never counts, so that others which are opened beside it are not refused
// for its sake.
func TestRefusedSessionsDoNotCount(t *testing.T) {
	all := &accounts{all: map[accountKey]*account{}}
	alice := Identity{Kind: Token, Name: ClientName("alice")}
	for i, limit := range []int{2, 2, 2, 0, 2} {
		a, were := all.open(alice, limit)
		if want := []int{0, 1, 2, 2, 3}[i]; were != want {
			t.Errorf("session %d of at most %d: there were %d, want %d", i, limit, were, want)
		}
		if want := []int{1, 2, 2, 3, 3}[i]; a.sessions != want {
			t.Errorf("after session %d of at most %d: %d count, want %d", i, limit, a.sessions, want)
		}
	}
}

func TestAccountsAreForgotten(t *testing.T) {
	g := NewGuard(nil, nil, nil)
	for i := range maxAccounts + 100 {
		s, err := g.OpenSession(Unrestricted(Identity{Kind: Token, Name: ClientName(fmt.Sprint("c", i))}))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if n := len(g.used.all); n > maxAccounts {
		t.Errorf("%d accounts are kept, the limit is %d", n, maxAccounts)
	}
}

func lines(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// TestNobodyBlindsTheAudit checks that a flood of one client's events suppresses no event of another, and that no administrative act is
// omitted.
func TestNobodyBlindsTheAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		a, err := OpenAudit(path, quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		denied := status.Errorf(status.PermissionDenied, "no")
		mallory := Identity{Kind: Token, Name: ClientName("mallory")}
		for i := range 5000 {
			a.Record(Event{What: "open", Who: mallory, From: fmt.Sprintf("192.0.2.1:%d", i), Session: "s"})
			a.Record(Event{What: "run", Who: mallory, From: "192.0.2.1:7", Refused: denied})
			a.Record(Event{What: "login", From: fmt.Sprintf("192.0.2.66:%d", i), Refused: denied})
			a.Record(Event{What: "login", From: fmt.Sprintf("[2001:db8::%x]:7", i), Refused: denied})
		}
		counts := map[string]int{}
		for _, e := range []Event{
			{What: "open", Who: Identity{Kind: Token, Name: ClientName("alice")}, From: "192.0.2.1:7"},
			{What: "run", Who: Identity{Kind: Token, Name: ClientName("alice")}, From: "192.0.2.1:7", Refused: denied},
			{What: "open", Who: Identity{Kind: Certificate, Name: TaskName("ps", 1)}, From: "192.0.2.1:7"},
			{What: "login", From: "192.0.2.2:7", Refused: denied},
			{What: "reset", Who: mallory, From: "192.0.2.1:7", Act: true},
			{What: "drain", Who: mallory, From: "192.0.2.1:7", Act: true},
		} {
			for range 5 {
				a.Record(e)
			}
		}
		for range auditBurst * 2 {
			a.Reloaded("policy", denied)
		}
		for _, e := range lines(t, path) {
			who, _ := e["who"].(string)
			counts[fmt.Sprint(e["event"], " ", who)]++
		}
		for what, want := range map[string]int{"open client:mallory": auditBurst, "run client:mallory": auditBurst, "open client:alice": 5, "run client:alice": 5,
			"open task:ps/1": 5, "reset client:mallory": 5, "drain client:mallory": 5, "reload ": 2 * auditBurst} {
			if counts[what] != want {
				t.Errorf("%d of %q, not %d", counts[what], what, want)
			}
		}
		if got, most := counts["login "], maxSources+2*auditBurst; got > most {
			t.Errorf("%d logins, more than %d", got, most)
		}
		if len(a.sources) > maxSources+4 { // the named ones, and the other hosts
			t.Errorf("%d sources are remembered", len(a.sources))
		}
	})
}

// TestAuditSources checks that a flood from new hosts looks at all known sources once in a while, not for each event.
func TestAuditSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := OpenAudit(filepath.Join(t.TempDir(), "audit.jsonl"), quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		login := func(i int) {
			a.Record(Event{What: "login", From: fmt.Sprintf("[2001:db8::%x]:7", i), Refused: status.Errorf(status.Unauthenticated, "no")})
		}
		next := 0
		for ; next < maxSources+10; next++ {
			login(next)
		}
		for range 2 { // all are idle after a moment, and are forgotten when a second has gone by
			time.Sleep(auditGap / 2)
			next++
			login(next)
			if a.swept.IsZero() || time.Since(a.swept) != auditGap/2 && time.Since(a.swept) != 0 {
				t.Fatalf("the sources were looked at %v ago", time.Since(a.swept))
			}
			if many := len(a.sources) >= maxSources; many != (time.Since(a.swept) != 0) {
				t.Errorf("%d sources %v after all were looked at", len(a.sources), time.Since(a.swept))
			}
		}
	})
}

func TestAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		a, err := OpenAudit(path, quiet)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		alice := Identity{Kind: Certificate, Name: ClientName("alice")}
		a.Record(Event{What: "open", Who: alice, From: "192.0.2.1:7", Session: "s1"})
		a.Record(Event{What: "login", From: "192.0.2.1:7", Refused: status.Errorf(status.Unauthenticated, "x\n{\"event\":\"open\"}%s", strings.Repeat("y", 2000))})
		all := lines(t, path)
		if len(all) != 2 || all[0]["who"] != "client:alice" || all[0]["by"] != "certificate" || all[0]["session"] != "s1" {
			t.Fatalf("the log is %v", all)
		}
		if r := all[1]; r["who"] != nil || r["code"] != "UNAUTHENTICATED" || len(r["refused"].(string)) != maxAuditText {
			t.Errorf("a refused login is %v", r)
		}

		// A flood of refusals is cut short, does not suppress permitted events, and is counted.
		for range 10_000 {
			a.Record(Event{What: "reset", Who: alice, Refused: status.Errorf(status.PermissionDenied, "no")})
		}
		a.Record(Event{What: "close", Who: alice, Session: "s1"})
		if n := len(lines(t, path)); n != auditBurst+3 {
			t.Errorf("the log has %d lines, want %d", n, auditBurst+3)
		}
		time.Sleep(auditGap + time.Millisecond)
		synctest.Wait()
		all = lines(t, path)
		if last := all[len(all)-1]; last["event"] != "left out" || last["refusals"] != float64(10_000-auditBurst) || last["of"] != "client:alice" {
			t.Errorf("the last line is %v", last)
		}

		// After a rename, the lines go to a new file.
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		if err := a.Reopen(); err != nil {
			t.Fatal(err)
		}
		a.Record(Event{What: "close", Who: alice, Session: "s2"})
		if all := lines(t, path); len(all) != 1 || all[0]["session"] != "s2" {
			t.Errorf("the new file has %v", all)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the mode is %v, %v", info.Mode(), err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := a.Reopen(); !contains(err, "chmod 600") {
			t.Errorf("a log that others read: %v", err)
		}
	})
}

func TestGuardIsConcurrent(t *testing.T) {
	g, reload := guardOf(t, "rules: [{who: any, may: open}]")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 100 {
				r, err := g.Admit(uint64(i+1), far)
				if err != nil {
					t.Error(err)
					return
				}
				s, err := g.OpenSession(r)
				if err != nil {
					t.Error(err)
					return
				}
				if s.BeginStep() == nil {
					s.EndStep()
				}
				s.Close()
				if j%10 == 0 {
					g.ConnectionClosed(uint64(i + 1))
				}
			}
		})
	}
	for range 5 {
		reload("rules: [{who: any, may: open}]")
	}
	wg.Wait()
}

func BenchmarkAdmit(b *testing.B) {
	g := NewGuard(nil, &PolicyFile{}, nil)
	g.policy.now.Store(parse(b, "rules: [{who: any, may: open}]"))
	r, err := g.Admit(1, far)
	if err != nil {
		b.Fatal(err)
	}
	s, err := g.OpenSession(r)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := g.Admit(1, far)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Use(r); err != nil {
			b.Fatal(err)
		}
	}
}
