package actors

import (
	"cmp"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph"
)

// A plan is that of a set of feeds, fetches and targets, as in TensorFlow, where each list is sorted first. So steps that name the same
// tensors in another order share a plan, and the state of functions that are not inlined.

// plans are the published plans of a session, and the plans' entries for other orders of their names, by signatureKey.
type plans map[string]entry

// entry is what a key of plans stands for.
type entry struct {
	*plan
	order *order // nil: the plan's own
}

// order is the order of a step's names. The plan's feed i is the step's feed feeds[i], and fetch i its fetch fetches[i].
type order struct{ feeds, fetches []int }

// maxOrders bounds the entries for other orders. All of them are found anew beyond it.
const maxOrders = 4 * maxPlans

// sorted returns the signature with sorted names, and how to get there from sig: nil if sig is sorted.
func sorted(sig graph.Signature) (graph.Signature, *order) {
	if slices.IsSorted(sig.Feeds) && slices.IsSorted(sig.Fetches) && slices.IsSorted(sig.Targets) {
		return sig, nil
	}
	o := &order{}
	sig.Feeds, o.feeds = sortedNames(sig.Feeds)
	sig.Fetches, o.fetches = sortedNames(sig.Fetches)
	sig.Targets = slices.Sorted(slices.Values(sig.Targets))
	return sig, o
}

// sortedNames returns the sorted names and their positions in names.
func sortedNames(names []string) (sorted []string, at []int) {
	at = make([]int, len(names))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(names[a], names[b]) })
	for _, i := range at {
		sorted = append(sorted, names[i])
	}
	return sorted, at
}

// feed returns the position in the step of the plan's feed i.
func (o *order) feed(i int) int {
	if o == nil {
		return i
	}
	return o.feeds[i]
}

// fetch returns the position in the step of the plan's fetch i.
func (o *order) fetch(i int) int {
	if o == nil {
		return i
	}
	return o.fetches[i]
}

// count returns the number of plans.
func (p plans) count() int {
	n := 0
	for _, e := range p {
		if e.order == nil {
			n++
		}
	}
	return n
}

// trim drops the least recently used plans beyond maxPlans, and the entries for other orders whose plans are gone or that are too many.
func (p plans) trim() {
	n := p.count()
	for ; n > maxPlans; n-- {
		var oldest string
		for k, e := range p {
			if o := p[oldest]; e.order == nil && (o.plan == nil || e.used.Load() < o.used.Load()) {
				oldest = k
			}
		}
		delete(p, oldest)
	}
	if n == len(p) {
		return
	}
	there := make(map[*plan]bool, n)
	for _, e := range p {
		if e.order == nil {
			there[e.plan] = true
		}
	}
	all := len(p)-n > maxOrders
	maps.DeleteFunc(p, func(_ string, e entry) bool { return e.order != nil && (all || !there[e.plan]) })
}
