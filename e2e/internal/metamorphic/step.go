package metamorphic

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// step is a step that can be run: those names of an action that exist, and the feeds.
type step struct {
	f               *facts
	fetch, target   []int
	feeds           []int
	fed             map[int]Value
	want            map[int]Value
	fetches, others []string // their names
}

// step prepares a step of an action. It returns nil if nothing of it is left.
func (pl *player) step(a *Action, seed uint64) *step {
	m := pl.machine
	there := func(list []int, ok func(s *Stmt) bool) []int {
		var out []int
		for _, id := range list {
			if s := pl.top[id]; s != nil && id <= pl.upto && ok(s) {
				out = append(out, id)
			}
		}
		return out
	}
	st := &step{f: m.f, fed: map[int]Value{}}
	st.target = there(a.Target, func(s *Stmt) bool { return !s.Out().resource() })
	feeds := there(a.Feed, func(s *Stmt) bool { return feedable(m.f, s) })
	st.fetch = there(a.Fetch, func(s *Stmt) bool {
		return s.Out() <= Int && s.Out() != None && !m.f.late(s.ID) && !slices.Contains(feeds, s.ID) && !pl.fed(s)
	})
	if len(st.fetch)+len(st.target) == 0 {
		return nil
	}
	r := scramble(seed, 17)
	isFed := map[int]bool{}
	for _, id := range feeds {
		isFed[id] = true
	}
	wanted := slices.Concat(st.fetch, st.target)
	own := m.scratch()
	for _, s := range m.f.closure(m.p, wanted, isFed) {
		switch {
		case isFed[s.ID] || !pl.fed(s):
		case s.Op == "input":
			st.fed[s.ID] = plainValue(Matrix, r.IntN(1<<30))
		default:
			st.fed[s.ID] = plainValue(s.Out(), s.Num)
		}
	}
	for i, id := range feeds {
		st.fed[id] = plainValue(m.f.types[id], r.IntN(1<<30))
		if i%2 == 0 { // the value that it would have anyway
			if v, ok := own.scratch().step([]int{id}, others(st.fed, id))[id]; ok {
				st.fed[id] = v
			}
		}
	}
	for _, s := range pl.p.Stmts {
		if _, ok := st.fed[s.ID]; ok {
			st.feeds = append(st.feeds, s.ID)
		}
	}
	for _, id := range st.fetch {
		st.fetches = append(st.fetches, tensorName(id))
	}
	for _, id := range st.target {
		st.others = append(st.others, nodeName(id))
	}
	return st
}

// fed reports whether a top-level statement is fed whenever it is needed. Fed values cannot be fetched.
func (pl *player) fed(s *Stmt) bool {
	return s.Op == "input" || pl.v.FeedConsts && (s.Op == "const" || s.Op == "sconst" || s.Op == "iconst")
}

// others returns the fed values without one that is to be computed.
func others(fed map[int]Value, but int) map[int]Value {
	out := maps.Clone(fed)
	delete(out, but)
	return out
}

// expect has the machine run the step.
func (st *step) expect(m *Machine) { st.want = m.step(slices.Concat(st.fetch, st.target), st.fed) }

// tensors returns the values of some feeds by name.
func (st *step) tensors(ids []int) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for _, id := range ids {
		t, err := st.fed[id].Tensor()
		if err != nil {
			return nil, err
		}
		out[tensorName(id)] = t
	}
	return out, nil
}

func release(tensors map[string]*tensor.Tensor) {
	for _, t := range tensors {
		t.Release()
	}
}

// compare compares fetched tensors with the machine's values, and releases them.
func (st *step) compare(ids []int, got []*tensor.Tensor) error {
	var first error
	for i, t := range got {
		v, err := valueOf(t, st.f.types[ids[i]])
		t.Release()
		if err == nil && !v.Equal(st.want[ids[i]]) {
			err = fmt.Errorf("%v, not %v", v, st.want[ids[i]])
		}
		if err != nil && first == nil {
			first = fmt.Errorf("s%d is %w", ids[i], err)
		}
	}
	return first
}

func unique(list []int) []int {
	var out []int
	for _, id := range list {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
