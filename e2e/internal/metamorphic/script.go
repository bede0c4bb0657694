package metamorphic

import (
	"math/rand/v2"
	"slices"
)

// writer makes a script for statements.
type writer struct {
	r     *rand.Rand
	p     *Program
	f     *facts
	upto  int   // the last statement in the sessions' graphs
	shown []int // what can be fetched
	acts  []int // what can only be run
	done  []*Action
}

func newScript(p *Program, r *rand.Rand) []*Action {
	w := &writer{r: r, p: p, f: learn(p)}
	last := p.Stmts[len(p.Stmts)-1].ID
	w.extend(last, r.IntN(2) == 0)
	var script []*Action
	add := func(a *Action) {
		if a != nil {
			script = append(script, a)
		}
	}
	script = append(script, &Action{Kind: Extend, Upto: w.upto})
	for range 4 + r.IntN(9) {
		if w.upto < last && r.IntN(3) == 0 {
			w.extend(last, r.IntN(3) == 0)
			add(&Action{Kind: Extend, Upto: w.upto})
		}
		add(w.action())
	}
	return script
}

// extend adds more statements to the sessions, or all.
func (w *writer) extend(last int, partly bool) {
	before := w.upto
	first := w.p.Stmts[slices.IndexFunc(w.p.Stmts, func(s *Stmt) bool { return s.Op != "input" })].ID
	w.upto = last
	if partly {
		w.upto = max(before, w.p.Stmts[w.r.IntN(len(w.p.Stmts))].ID, first)
	}
	w.shown, w.acts = nil, nil
	for _, s := range w.p.Stmts {
		if s.ID > w.upto {
			break
		}
		switch t := s.Out(); {
		case t.resource():
		case t == None || w.f.late(s.ID):
			if touchers[s.Op].reads || touchers[s.Op].writes {
				w.acts = append(w.acts, s.ID)
			}
		case s.Op == "input":
		default:
			w.shown = append(w.shown, s.ID)
		}
	}
}

func (w *writer) action() *Action {
	switch k := w.r.IntN(20); {
	case k < 2:
		return w.step(Callable)
	case k < 4:
		return w.step(Partial)
	case k < 6:
		return w.parallel()
	case k < 8:
		return w.failing()
	case k == 8:
		return &Action{Kind: Reopen, Session: w.session()}
	case k < 15 && len(w.done) > 0:
		return w.again()
	default:
		return w.step(Run)
	}
}

// again returns an earlier step with other values, or one that differs a little from it, which must not be confused with the earlier one.
func (w *writer) again() *Action {
	r := w.r
	a := cloneActions(w.done[r.IntN(len(w.done)):])[0]
	a.Seed, a.Session = r.Uint64(), w.session()
	switch r.IntN(7) {
	case 0:
		a.Fetch = w.some(a.Fetch)
	case 1:
		a.Fetch = append(a.Fetch, w.shown[r.IntN(len(w.shown))]) // may be a duplicate
	case 2:
		r.Shuffle(len(a.Fetch), func(i, j int) { a.Fetch[i], a.Fetch[j] = a.Fetch[j], a.Fetch[i] })
	case 3:
		if len(w.acts) > 0 {
			a.Target = append(a.Target, w.acts[r.IntN(len(w.acts))])
		}
	case 4:
		a.Target = w.some(a.Target)[min(1, len(a.Target)):]
	case 5:
		a.Feed = nil
		w.feed(a)
	}
	w.done = append(w.done, a)
	return a
}

func (w *writer) session() int {
	if w.r.IntN(5) == 0 {
		return 1
	}
	return 0
}

// some returns a few elements of a list, in its order.
func (w *writer) some(list []int) []int {
	var out []int
	share := 1 + w.r.IntN(4)
	for _, id := range list {
		if w.r.IntN(4) < share {
			out = append(out, id)
		}
	}
	if len(out) == 0 && len(list) > 0 {
		out = append(out, list[w.r.IntN(len(list))])
	}
	return out
}

func (w *writer) step(kind Kind) *Action {
	a := &Action{Kind: kind, Session: w.session(), Seed: w.r.Uint64()}
	switch w.r.IntN(4) {
	case 0:
		a.Fetch = slices.Clone(w.shown)
	case 1:
		a.Fetch = []int{w.shown[w.r.IntN(len(w.shown))]}
	default:
		a.Fetch = w.some(w.shown)
	}
	if w.r.IntN(2) == 0 && len(w.acts) > 0 {
		a.Target = w.some(w.acts)
	}
	if w.r.IntN(3) == 0 {
		w.feed(a)
	}
	if kind == Run {
		w.done = append(w.done, a)
	}
	return a
}

// feed feeds a step with a value that it would compute itself.
func (w *writer) feed(a *Action) {
	var can []int
	for _, s := range w.f.closure(w.p, slices.Concat(a.Fetch, a.Target), nil) {
		if feedable(w.f, s) && !slices.Contains(a.Fetch, s.ID) {
			can = append(can, s.ID)
		}
	}
	if len(can) > 0 {
		a.Feed = w.some(can[len(can)/2:])
	}
}

// feedable reports whether a statement's value may be fed: it touches no resource, so no other statement waits for it.
func feedable(f *facts, s *Stmt) bool {
	return (pures[s.Op] != nil && s.Op != "input" || len(s.Blocks) > 0) && len(f.touch[s.ID]) == 0
}

// parallel returns concurrent steps that do not observe each other's effects.
func (w *writer) parallel() *Action {
	a := &Action{Kind: Parallel}
	for range 2 + w.r.IntN(3) {
		part := w.step(Run)
		w.done = w.done[:len(w.done)-1]
		part.Fetch = w.some(part.Fetch)
		if a.Parts = append(a.Parts, part); !independent(w.p, w.f, a.Parts) {
			a.Parts = a.Parts[:len(a.Parts)-1]
		}
	}
	if w.r.IntN(2) == 0 { // the same step several times
		for range 2 {
			again := cloneActions(a.Parts[:1])[0]
			again.Seed = w.r.Uint64()
			if a.Parts = append(a.Parts, again); !independent(w.p, w.f, a.Parts) {
				a.Parts = a.Parts[:len(a.Parts)-1]
				break
			}
		}
	}
	return a
}

// independent reports whether steps may run in any order: no step touches a resource that another changes, unless all only add to it.
func independent(p *Program, f *facts, parts []*Action) bool {
	type use struct {
		parts           map[int]bool
		changed, others bool // changes other than additions
	}
	uses := map[int]*use{}
	for i, a := range parts {
		fed := map[int]bool{}
		for _, id := range a.Feed {
			fed[id] = true
		}
		for _, s := range f.closure(p, slices.Concat(a.Fetch, a.Target), fed) {
			for r, writes := range f.touch[s.ID] {
				u := uses[r]
				if u == nil {
					u = &use{parts: map[int]bool{}}
					uses[r] = u
				}
				u.parts[i] = true
				u.changed = u.changed || writes
				if !commutes(s.Op) || slices.Contains(a.Fetch, s.ID) || s.Args[0] != r || f.late(s.Args[1]) {
					u.others = true
				}
			}
		}
	}
	for _, u := range uses {
		if len(u.parts) > 1 && u.changed && u.others {
			return false
		}
	}
	return true
}

// failing returns a step that fails and changes nothing.
func (w *writer) failing() *Action {
	for _, s := range w.p.Stmts {
		if s.Op != "check" || s.ID > w.upto || w.r.IntN(2) == 0 {
			continue
		}
		a := &Action{Kind: Fail, Session: w.session(), Seed: w.r.Uint64(), Fail: s.ID, Fetch: append(w.some(w.shown), s.ID)}
		for len(a.Fetch) > 1 && changes(w.p, w.f, a) {
			a.Fetch = slices.Delete(a.Fetch, 0, 1)
		}
		if !changes(w.p, w.f, a) {
			slices.Sort(a.Fetch)
			a.Fetch = slices.Compact(a.Fetch)
			return a
		}
	}
	return w.step(Run)
}

// changes reports whether a step changes a resource.
func changes(p *Program, f *facts, a *Action) bool {
	fed := map[int]bool{}
	for _, id := range a.Feed {
		fed[id] = true
	}
	return slices.ContainsFunc(f.closure(p, slices.Concat(a.Fetch, a.Target), fed), func(s *Stmt) bool { return f.touch[s.ID].writes() })
}
