package lifecycle

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

var update = flag.Bool("update", false, "write what the transcripts' commands give into testdata")

// TestTranscripts runs testdata/*.txt: blocks of commands, a line of dashes, and what the machine answers and is like afterwards. An ERROR is a
// code and a text; a text that begins with "derived" makes it a consequence. The commands of master*.txt are
//
//	begin OWN OTHER…
//	start TASK | started TASK | unknown TASK | ended TASK [ERROR] | lost TASK ERROR
//	own [ERROR] | fail ERROR | abandon ERROR
//
// those of part*.txt are
//
//	new | use PEER… | meets TASK | begin N | hold | end [ERROR] | refuse ERROR | fail ERROR
//
// and those of table*.txt, in which a session is a letter, a step a number, and a time seconds from the beginning, are
//
//	table session=N steps=N
//	enter SESSION ID | leave ID | close_session SESSION | master ID
//	begin ID | end ID | refuse ID ERROR | close
//	deposit TIME ID EDGE BYTES | dead TIME ID EDGE | tick TIME
//	fill BYTES                       takes memory as parked tensors do; a negative number gives it back
//
// At the end of each file all memory must be back in the pool.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t, pool: tensor.NewPool("test", 0)}
			kind, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), "_")
			do := map[string]func(f []string){"master": s.master, "part": s.part, "table": s.table}[kind]
			var out []string
			for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
				commands, _, _ := strings.Cut(block, "\n----")
				s.out = nil
				for line := range strings.SplitSeq(commands, "\n") {
					if !strings.HasPrefix(line, "#") {
						do(strings.Fields(line))
					}
				}
				out = append(out, commands+"\n----\n"+strings.Join(s.out, "\n")+"\n= "+s.picture())
			}
			Release(s.held)
			if n := s.pool.Stats().InUse; n != 0 {
				t.Errorf("%d bytes still in use", n)
			}
			got := strings.ReplaceAll(strings.Join(out, "\n\n")+"\n", "----\n\n", "----\n")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("the transcript is now\n%s", got)
			}
		})
	}
}

// script is the run of a transcript.
type script struct {
	t    *testing.T
	pool *tensor.Pool
	out  []string
	held []Arrival // that live parts have got

	m        *Master
	p        *Part
	steps    *Table[string, string]
	sessions map[string]*Session[string, string]
	entries  map[uint64]*Entry[string, string]
}

func (s *script) say(format string, args ...any) { s.out = append(s.out, fmt.Sprintf(format, args...)) }

func (s *script) picture() string {
	switch {
	case s.m != nil:
		return pictureOf(s.m)
	case s.p != nil:
		return fmt.Sprintf("%d held, over %v, %s", s.p.left, s.p.over, outcome(s.p.Err()))
	}
	var live, parked []string
	for _, id := range slices.Sorted(maps.Keys(s.steps.steps)) {
		e := s.steps.steps[id]
		text := strconv.FormatUint(id, 10)
		if e.session != nil {
			text += " in " + e.Master
		}
		if e.live {
			text += " runs"
		}
		live = append(live, text)
	}
	for at := s.steps.waiting.Front(); at != nil; at = at.Next() {
		p := at.Value.(*parking)
		var edges []string
		for _, a := range p.arrived {
			edges = append(edges, a.Key.Edge)
		}
		parked = append(parked, fmt.Sprintf("%d %v", p.id, edges))
	}
	return fmt.Sprintf("live %v, parked %v", live, parked)
}

func pictureOf(m *Master) string {
	var parts []string
	if m.local {
		parts = append(parts, m.own)
	}
	for _, p := range m.parts {
		if p.state != ended {
			parts = append(parts, p.task+" "+[]string{"pending", "asked"}[p.state])
		}
	}
	return fmt.Sprintf("owes [%s], %s", strings.Join(parts, ", "), outcome(m.Err()))
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	text := fmt.Sprintf("%v %v", status.CodeOf(err), err)
	if status.From(err).Derived {
		text += " (derived)"
	}
	return text
}

// errorOf parses an ERROR.
func (s *script) errorOf(f []string) error {
	if len(f) == 0 {
		return nil
	}
	for c := status.Cancelled; c <= status.Unauthenticated; c++ {
		if c.String() == f[0] {
			return &status.Error{Code: c, Message: strings.Join(f[1:], " "), Derived: len(f) > 1 && f[1] == "derived"}
		}
	}
	s.t.Fatalf("no code %s", f[0])
	return nil
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) effects(e Effects) {
	if e.Failed {
		s.say("failed: %s", outcome(e.Err))
	}
	if e.AbortOwn {
		s.say("abort the own part")
	}
	if len(e.Abort) > 0 {
		s.say("abort %s: %s", strings.Join(e.Abort, ", "), outcome(e.Err))
	}
	if e.Stray {
		s.say("stray")
	}
	if e.Over {
		s.say("over: %s", outcome(s.m.Err()))
	}
}

func (s *script) master(f []string) {
	if f[0] == "begin" {
		if s.m == nil {
			s.m = &Master{}
		}
		s.m.Begin(f[1], f[2:]...)
		return
	}
	m := s.m
	switch f[0] {
	case "start":
		start, e := m.Start(f[1])
		s.say("start %s: %v", f[1], start)
		s.effects(e)
	case "started":
		s.effects(m.Started(f[1]))
	case "unknown":
		s.say("unknown to %s, asked again: %v", f[1], m.Unknown(f[1]))
	case "ended":
		s.effects(m.Ended(f[1], s.errorOf(f[2:])))
	case "lost":
		s.effects(m.Lost(f[1], s.errorOf(f[2:])))
	case "own":
		s.effects(m.EndedOwn(s.errorOf(f[1:])))
	case "fail":
		s.effects(m.Fail(s.errorOf(f[1:])))
	case "abandon":
		s.effects(m.Abandon(s.errorOf(f[1:])))
	default:
		s.t.Fatalf("no command %q", f)
	}
}

func (s *script) part(f []string) {
	p := s.p
	switch f[0] {
	case "new":
		s.p = &Part{}
	case "use":
		peers := map[string]bool{}
		for _, task := range f[1:] {
			peers[task] = true
		}
		p.Use(peers)
	case "meets":
		s.say("meets %s: %v", f[1], p.Meets(f[1]))
	case "begin":
		p.Begin(s.number(f[1]))
	case "hold":
		p.Hold()
	case "end":
		last := p.Ending(s.errorOf(f[1:]))
		over, err := p.Ended()
		if s.say("last %v, over %v", last, over); over {
			s.say("over: %s", outcome(err))
		}
	case "refuse":
		ok, err := p.Refuse(s.errorOf(f[1:]))
		s.say("refused %v: %s", ok, outcome(err))
	case "fail":
		s.say("cancel: %v", p.Fail(s.errorOf(f[1:])))
	default:
		s.t.Fatalf("no command %q", f)
	}
}

var midnight = time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)

func (s *script) table(f []string) {
	id := func(i int) uint64 { return uint64(s.number(f[i])) }
	entry := func(i int) *Entry[string, string] {
		n := id(i)
		if s.entries[n] == nil {
			s.entries[n] = &Entry[string, string]{ID: n, Part: f[i]}
		}
		return s.entries[n]
	}
	session := func(i int) *Session[string, string] {
		if s.sessions[f[i]] == nil {
			s.sessions[f[i]] = &Session[string, string]{}
		}
		return s.sessions[f[i]]
	}
	at := func() time.Time { return midnight.Add(time.Duration(s.number(f[1])) * time.Second) }
	drop := func(all []Arrival) {
		for _, a := range all {
			s.say("dropped %s", a.Key.Edge)
		}
		Release(all)
	}
	give := func(to string, a Arrival) {
		s.say("%s gets %s", to, a.Key.Edge)
		s.held = append(s.held, a)
	}
	deposit := func(a Arrival) {
		part, live, dropped := s.steps.Deposit(at(), id(2), a)
		if live {
			give(part, a)
		}
		drop(dropped)
	}
	switch f[0] {
	case "table":
		l := Limits{Full: status.New(status.ResourceExhausted, "full")}
		for _, o := range f[1:] {
			name, n, _ := strings.Cut(o, "=")
			*map[string]*int{"session": &l.Session, "steps": &l.Steps}[name] = s.number(n)
		}
		s.steps, s.sessions, s.entries = NewTable[string, string]("t", l), map[string]*Session[string, string]{}, map[uint64]*Entry[string, string]{}
	case "enter":
		err := s.steps.Enter(session(1), entry(2))
		if err == nil {
			entry(2).Master = f[1]
		}
		s.say("enter %s: %s", f[2], outcome(err))
	case "leave":
		gone, idle := s.steps.Leave(entry(1))
		s.say("left %v, idle %v", gone, idle)
	case "close_session":
		first, running := s.steps.CloseSession(session(1))
		s.say("first %v, %d run", first, len(running))
	case "master":
		m, ok := s.steps.Master(id(1))
		s.say("master of %s: %q %v", f[1], m, ok)
	case "begin":
		arrived, err := s.steps.Begin(entry(1))
		s.say("begin %s: %s", f[1], outcome(err))
		if err != nil {
			drop(arrived)
			return
		}
		for _, a := range arrived {
			give(f[1], a)
		}
	case "end":
		s.say("idle %v", s.steps.End(entry(1)))
	case "refuse":
		part, live, dropped := s.steps.Refuse(id(1), s.errorOf(f[2:]))
		if live {
			s.say("%s fails", part)
		}
		drop(dropped)
	case "deposit":
		v, err := tensor.New(s.pool, tensor.Uint8, tensor.Shape{int64(s.number(f[4]))})
		if err != nil {
			s.t.Fatal(err)
		}
		deposit(Arrival{Key: kernels.Key{Edge: f[3]}, Tensor: v})
	case "dead":
		deposit(Arrival{Key: kernels.Key{Edge: f[3]}, Dead: true})
	case "tick":
		dropped, next := s.steps.Tick(at())
		drop(dropped)
		if next.IsZero() {
			s.say("no tick needed")
		} else {
			s.say("tick again at %v", next.Sub(midnight))
		}
	case "fill":
		s.steps.bytes += s.number(f[1])
	case "close":
		dropped, idle := s.steps.Close()
		drop(dropped)
		s.say("idle %v", idle)
	default:
		s.t.Fatalf("no command %q", f)
	}
}
