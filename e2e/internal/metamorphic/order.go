package metamorphic

import (
	"maps"
	"slices"
)

// facts is what the drawing and the oracle need to know about a program's statements.
type facts struct {
	stmts  map[int]*Stmt
	types  map[int]Type    // of all IDs, including parameters
	alias  map[int]int     // the reference that a value is read from when it is used
	sizes  map[int]float64 // bounds of values
	narrow map[int]bool    // statements that squash their arguments, which may be large
	touch  map[int]touches // what each statement touches
}

// touches reports for each touched resource whether it is changed.
type touches map[int]bool

func (t touches) add(o touches) {
	for r, writes := range o {
		t[r] = t[r] || writes
	}
}

func (t touches) writes() bool {
	for _, w := range t {
		if w {
			return true
		}
	}
	return false
}

// The sizes of values.
const (
	ownSize   = 4 // constants and fed values
	smallSize = 8 // squashed values
	// storedSize bounds sums in a variable.
	storedSize = 1 << 19
	// largest bounds the integers that float32 represents exactly, with room for one more addition.
	largest = 1 << 23
)

func learn(p *Program) *facts {
	f := &facts{map[int]*Stmt{}, map[int]Type{}, map[int]int{}, map[int]float64{}, map[int]bool{}, map[int]touches{}}
	f.learn(p.Stmts)
	return f
}

func (f *facts) learn(stmts []*Stmt) {
	for _, s := range stmts {
		f.stmts[s.ID], f.types[s.ID] = s, s.Out()
		t := touches{}
		for _, a := range s.Args {
			if r, ok := f.alias[a]; ok {
				t[r] = t[r] || false
			}
		}
		o := touchers[s.Op]
		switch {
		case o != nil:
			f.learnToucher(s, o, t)
		case pures[s.Op] != nil:
			f.sizes[s.ID] = f.sizePure(s)
		case len(s.Blocks) > 0:
			f.learnBlocks(s, t)
		case s.Op == "check":
			f.sizes[s.ID] = f.size(s.Args[0])
		}
		f.touch[s.ID] = t
	}
}

func (f *facts) learnToucher(s *Stmt, o *toucher, t touches) {
	res := s.Args[0]
	if f.inert(s) {
		clear(t)
		f.sizes[s.ID] = ownSize
		return
	}
	f.sizes[s.ID] = storedSize
	if o.late {
		f.alias[s.ID] = res
	}
	if o.reads || o.writes {
		t[res] = t[res] || o.writes
	}
}

// inert reports whether a statement would touch a resource that does not exist (any more), and so has the default value.
func (f *facts) inert(s *Stmt) bool {
	o := touchers[s.Op]
	return o != nil && f.types[s.Args[0]] != o.resource
}

func (f *facts) learnBlocks(s *Stmt, t touches) {
	for _, b := range s.Blocks {
		for i, p := range b.Params {
			f.types[p] = []Type{Int, Matrix}[i]
			f.sizes[p] = max(f.size(s.Args[0]), smallSize)
		}
		f.learn(b.Stmts)
		for _, inner := range f.alive(b) {
			t.add(f.touch[inner.ID])
		}
		if r, ok := f.alias[b.Result]; ok {
			t[r] = t[r] || false
		}
	}
	f.sizes[s.ID] = smallSize
	if len(s.Blocks[0].Params) > 0 { // a loop without iterations returns its initial value, to which a TensorArray adds
		f.sizes[s.ID] = max(f.size(s.Args[0]), smallSize) + iterationsMask*smallSize
	}
}

func (f *facts) size(id int) float64 {
	if s, ok := f.sizes[id]; ok {
		return s
	}
	return ownSize
}

// sizePure bounds a statement's result, and records whether its arguments must be squashed for that.
func (f *facts) sizePure(s *Stmt) float64 {
	of := func(narrow bool) float64 {
		sizes := make([]float64, len(s.Args))
		for i, a := range s.Args {
			if sizes[i] = f.size(a); narrow {
				sizes[i] = min(sizes[i], smallSize)
			}
		}
		if grow := pures[s.Op].grow; grow != nil {
			return grow(sizes)
		}
		return slices.Max(append(sizes, ownSize))
	}
	size := of(false)
	if size > largest {
		f.narrow[s.ID] = true
		size = of(true)
	}
	return size
}

// alive returns the statements of a block that are drawn: those that its result needs, and those that change something. Others would be
// pruned, together with what only they need from outside.
func (f *facts) alive(b *Block) []*Stmt {
	need := map[int]bool{b.Result: true}
	var out []*Stmt
	for _, inner := range slices.Backward(b.Stmts) {
		if need[inner.ID] || f.touch[inner.ID].writes() {
			out = append(out, inner)
			for _, id := range f.uses(inner) {
				need[id] = true
			}
		}
	}
	slices.Reverse(out)
	return out
}

// uses returns the values, resources and statements from outside that a statement needs.
func (f *facts) uses(s *Stmt) []int {
	if f.inert(s) {
		return s.After
	}
	out := slices.Concat(s.Args, s.After)
	for _, b := range s.Blocks {
		out = append(out, f.free(b)...)
	}
	return out
}

// free returns what a block of a construct uses and does not define.
func (f *facts) free(b *Block) []int {
	own := map[int]bool{}
	for _, p := range b.Params {
		own[p] = true
	}
	used := map[int]bool{b.Result: true}
	for _, inner := range f.alive(b) {
		own[inner.ID] = true
		for _, id := range f.uses(inner) {
			used[id] = true
		}
	}
	for id := range own {
		delete(used, id)
	}
	return slices.Sorted(maps.Keys(used))
}

// sequence orders the statements of a block that touch the same resources. A change waits for all statements that have touched the resource
// since the previous change; a read waits for the last change.
type sequence struct {
	wait map[int][]int
	last map[int]*latest // by resource
}

type latest struct {
	writer  int
	readers []int
}

func (f *facts) sequence(stmts []*Stmt) *sequence {
	q := &sequence{map[int][]int{}, map[int]*latest{}}
	for _, s := range stmts {
		t := f.touch[s.ID]
		for _, r := range slices.Sorted(maps.Keys(t)) {
			q.wait[s.ID] = append(q.wait[s.ID], q.before(r, t[r])...)
		}
		for r, writes := range t {
			l := q.last[r]
			if l == nil {
				l = &latest{writer: -1}
				q.last[r] = l
			}
			if writes {
				*l = latest{writer: s.ID}
			} else {
				l.readers = append(l.readers, s.ID)
			}
		}
	}
	return q
}

// before returns the statements for which the next read or change of a resource waits.
func (q *sequence) before(r int, writes bool) []int {
	l := q.last[r]
	switch {
	case l == nil:
		return nil
	case writes && len(l.readers) > 0:
		return l.readers
	case l.writer >= 0:
		return []int{l.writer}
	}
	return nil
}

// ends returns the statements that touched the resources last.
func (q *sequence) ends() []int {
	var out []int
	for _, r := range slices.Sorted(maps.Keys(q.last)) {
		out = append(out, q.before(r, true)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// closure returns the top-level statements that a step runs, in order.
func (f *facts) closure(p *Program, wanted []int, fed map[int]bool) []*Stmt {
	wait := f.sequence(p.Stmts).wait
	runs := map[int]bool{}  // statements that are run, fed or not
	value := map[int]bool{} // statements whose value is needed
	for _, id := range wanted {
		if !fed[id] {
			value[id] = true
		}
	}
	var out []*Stmt
	for _, s := range slices.Backward(p.Stmts) {
		if !runs[s.ID] && (!value[s.ID] || fed[s.ID]) {
			continue
		}
		out = append(out, s)
		for _, id := range slices.Concat(s.After, wait[s.ID]) {
			runs[id] = true
		}
		for _, id := range f.uses(s) {
			if !slices.Contains(s.After, id) {
				value[id] = true
			}
		}
	}
	slices.Reverse(out)
	return out
}
