package metamorphic

import (
	"context"
	"slices"
	"time"
)

// shrinker shrinks a finding step by step, and keeps each program that still fails in the same way.
type shrinker struct {
	ctx      context.Context
	clusters *Clusters
	deadline time.Duration
	tries    int // how many times a program is run before it counts as correct
	best     *Finding
	kind     string
}

// Shrink shrinks a finding until nothing more can be left out or ctx ends. A program that hangs is abandoned after the deadline, which may
// be shorter than the one with which it was found.
func (c *Clusters) Shrink(ctx context.Context, f *Finding, deadline time.Duration) *Finding {
	s := &shrinker{ctx: ctx, clusters: c, deadline: deadline, best: f, kind: f.kind()}
	const rounds = 8
	failed := 0
	for range rounds {
		if c.Play(ctx, f.Program, f.Variant, deadline) != nil {
			failed++
		}
	}
	s.tries = 1
	if failed < rounds {
		s.tries = 4 * rounds / max(failed, 1)
	}
	for smaller := true; smaller && ctx.Err() == nil; {
		smaller = s.actions()
		smaller = s.statements() || smaller
		smaller = s.hoist() || smaller
		smaller = s.simplify() || smaller
		smaller = s.variant() || smaller
	}
	s.best.Program = s.best.Program.tidied()
	return s.best
}

// try keeps a program if it fails in the same way.
func (s *shrinker) try(p *Program, v Variant) bool {
	for range s.tries {
		if s.ctx.Err() != nil {
			return false
		}
		if err := s.clusters.Play(s.ctx, p, v, s.deadline); err != nil {
			f := &Finding{p, v, err}
			if f.kind() == s.kind && s.ctx.Err() == nil {
				s.best = f
				return true
			}
			return false
		}
	}
	return false
}

// chunks leaves out parts of a list of n, halves first and then smaller ones. drop tries the list without the elements from i to j, and
// reports whether it has dropped them.
func chunks(n func() int, drop func(i, j int) bool) bool {
	smaller := false
	for size := max(n()/2, 1); ; size /= 2 {
		for i := n() - size; i > -size; {
			if drop(max(i, 0), min(max(i, 0)+size, n())) {
				smaller = true
			}
			i = min(i-size, n()-size)
		}
		if size <= 1 {
			return smaller
		}
	}
}

func (s *shrinker) actions() bool {
	smaller := chunks(func() int { return len(s.best.Program.Script) }, func(i, j int) bool {
		p := s.best.Program.Clone()
		p.Script = slices.Delete(p.Script, i, j)
		return i < j && s.try(p, s.best.Variant)
	})
	for i := range s.best.Program.Script {
		smaller = s.action(func(p *Program) *Action { return p.Script[i] }) || smaller
		for k := len(s.best.Program.Script[i].Parts) - 1; k >= 0; k-- {
			p := s.best.Program.Clone()
			p.Script[i].Parts = slices.Delete(p.Script[i].Parts, k, k+1)
			if s.try(p, s.best.Variant) {
				smaller = true
				continue
			}
			smaller = s.action(func(p *Program) *Action { return p.Script[i].Parts[k] }) || smaller
		}
	}
	return smaller
}

// action shrinks one action.
func (s *shrinker) action(of func(*Program) *Action) bool {
	smaller := false
	for _, list := range []func(*Action) *[]int{
		func(a *Action) *[]int { return &a.Fetch },
		func(a *Action) *[]int { return &a.Target },
		func(a *Action) *[]int { return &a.Feed },
	} {
		smaller = chunks(func() int { return len(*list(of(s.best.Program))) }, func(i, j int) bool {
			if i >= j {
				return false
			}
			p := s.best.Program.Clone()
			l := list(of(p))
			*l = slices.Delete(*l, i, j)
			return s.try(p, s.best.Variant)
		}) || smaller
	}
	for _, change := range []func(a *Action) bool{
		func(a *Action) bool {
			plain := a.Kind != Callable && a.Kind != Partial
			a.Kind = map[bool]Kind{true: a.Kind, false: Run}[plain]
			return !plain
		},
		func(a *Action) bool { had := a.Session != 0; a.Session = 0; return had },
	} {
		if p := s.best.Program.Clone(); change(of(p)) {
			smaller = s.try(p, s.best.Variant) || smaller
		}
	}
	return smaller
}

// all returns the statements' IDs, including nested ones.
func (p *Program) all() []int {
	var ids []int
	p.Walk(func(s *Stmt) { ids = append(ids, s.ID) })
	return ids
}

func (s *shrinker) statements() bool {
	return chunks(func() int { return s.best.Program.Size() }, func(i, j int) bool {
		if i >= j {
			return false
		}
		p := s.best.Program.Clone()
		ids := p.all()[i:j]
		p.Stmts = without(p.Stmts, func(st *Stmt) bool { return slices.Contains(ids, st.ID) })
		return s.try(p, s.best.Variant)
	})
}

func without(stmts []*Stmt, gone func(*Stmt) bool) []*Stmt {
	stmts = slices.DeleteFunc(stmts, gone)
	for _, s := range stmts {
		for _, b := range s.Blocks {
			b.Stmts = without(b.Stmts, gone)
		}
	}
	return stmts
}

// hoist replaces a construct with one of its blocks.
func (s *shrinker) hoist() bool {
	smaller := false
	for _, id := range s.best.Program.all() {
		for block := range 3 {
			p := s.best.Program.Clone()
			if hoisted, ok := hoist(p.Stmts, id, block); ok {
				if p.Stmts = hoisted; s.try(p, s.best.Variant) {
					smaller = true
					break
				}
			}
		}
	}
	return smaller
}

func hoist(stmts []*Stmt, id, block int) ([]*Stmt, bool) {
	for i, s := range stmts {
		if s.ID == id && block < len(s.Blocks) {
			b := s.Blocks[block]
			s.Op, s.Args, s.Blocks = "identity", []int{b.Result}, nil
			return slices.Insert(stmts, i, b.Stmts...), true
		}
		for _, b := range s.Blocks {
			if inner, ok := hoist(b.Stmts, id, block); ok {
				b.Stmts = inner
				return stmts, true
			}
		}
	}
	return stmts, false
}

// simplify removes what a statement has beside its op.
func (s *shrinker) simplify() bool {
	smaller := false
	for _, id := range s.best.Program.all() {
		for _, change := range simplifications {
			p := s.best.Program.Clone()
			changed := false
			p.Walk(func(st *Stmt) {
				if st.ID == id {
					changed = change(st)
				}
			})
			if changed && s.try(p, s.best.Variant) {
				smaller = true
			}
		}
	}
	return smaller
}

// simplifications change a statement, and report whether there was something to change.
var simplifications = []func(s *Stmt) bool{
	func(s *Stmt) bool { had := s.Spread != 0; s.Spread = 0; return had },
	func(s *Stmt) bool { had := s.Place >= 0; s.Place = -1; return had },
	func(s *Stmt) bool { had := len(s.After) > 0; s.After = nil; return had },
	func(s *Stmt) bool { return dropBit(s, arrayFlag) },
	func(s *Stmt) bool { return dropBit(s, untilFlag) },
	func(s *Stmt) bool { return dropBit(s, 1) },
	func(s *Stmt) bool { return dropBit(s, 2) },
	func(s *Stmt) bool { return dropArg(s, 0) },
	func(s *Stmt) bool { return dropArg(s, 1) },
	func(s *Stmt) bool { return dropArg(s, 2) },
	func(s *Stmt) bool {
		had := len(s.Blocks) > 1 && s.Op == "case"
		if had {
			s.Blocks = s.Blocks[:len(s.Blocks)-1]
		}
		return had
	},
}

func dropBit(s *Stmt, bit int) bool {
	if s.Op != "loop" && s.Op != "while" || s.Num&bit == 0 {
		return false
	}
	s.Num &^= bit
	return true
}

func dropArg(s *Stmt, i int) bool {
	if i >= len(s.Args) || s.Args[i] == 0 {
		return false
	}
	s.Args[i] = 0
	return true
}

// variant simplifies the variant.
func (s *shrinker) variant() bool {
	smaller := false
	for _, change := range []func(v *Variant){
		func(v *Variant) { v.Shape = 0 },
		func(v *Variant) { v.Shape = min(v.Shape, 2) },
		func(v *Variant) { v.Masters = [2]int{} },
		func(v *Variant) { v.Masters[1] = v.Masters[0] },
		func(v *Variant) { v.Turn = 0 },
		func(v *Variant) { v.Lower = LowerSome },
		func(v *Variant) { v.FeedConsts = false },
		func(v *Variant) { v.Trace = false },
		func(v *Variant) { v.Shuffle = 0 },
	} {
		v := s.best.Variant
		if change(&v); v != s.best.Variant && s.try(s.best.Program, v) {
			smaller = true
		}
	}
	return smaller
}
