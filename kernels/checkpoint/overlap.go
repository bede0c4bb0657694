package checkpoint

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// box is a part of a tensor, in absolute positions.
type box struct{ start, size []int64 }

// overlap returns the intersection of two slices of a tensor; ok is false if it is empty.
func overlap(a, b Slice, whole tensor.Shape) (c box, ok bool) {
	for i, d := range whole {
		as, ae := a[i].bounds(d)
		bs, be := b[i].bounds(d)
		start, end := max(as, bs), min(ae, be)
		if start >= end {
			return c, false
		}
		c.start, c.size = append(c.start, start), append(c.size, end-start)
	}
	return c, true
}

func (b box) elements() int64 {
	n := int64(1)
	for _, d := range b.size {
		n *= d
	}
	return n
}

func (e Extent) bounds(size int64) (start, end int64) {
	if e.Length < 0 {
		return 0, size
	}
	return e.Start, e.Start + e.Length
}

// view is a slice of a tensor of the shape whole, stored separately in memory or in a file.
type view struct {
	slice Slice
	shape tensor.Shape // of the slice
	whole tensor.Shape
}

func newView(s Slice, whole tensor.Shape) (view, error) {
	shape, err := s.Shape(whole)
	return view{s, shape, whole}, err
}

// runs calls f for each run of n elements that are contiguous in both slices: at element src of from and dst of to. src increases from call
// to call.
func (b box) runs(to, from view, f func(dst, src, n int64) error) error {
	// Trailing dimensions that both slices contain in full form one run with the dimension before them.
	inner, n := len(b.size), int64(1)
	for inner > 0 {
		inner--
		n *= b.size[inner]
		if b.size[inner] != to.shape[inner] || b.size[inner] != from.shape[inner] {
			break
		}
	}
	at := make([]int64, inner)
	for {
		d, s := int64(0), int64(0)
		for i, p := range b.start {
			if i < inner {
				p += at[i]
			}
			ds, _ := to.slice[i].bounds(0)
			ss, _ := from.slice[i].bounds(0)
			d = d*to.shape[i] + p - ds
			s = s*from.shape[i] + p - ss
		}
		if err := f(d, s, n); err != nil {
			return err
		}
		i := inner - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < b.size[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return nil
		}
	}
}

// copyTensor copies the intersection of two slices.
func (b box) copyTensor(dst *tensor.Tensor, to view, src *tensor.Tensor, from view) error {
	if dst.DType() == tensor.String {
		return b.runs(to, from, func(d, s, n int64) error {
			copy(dst.Strings()[d:d+n], src.Strings()[s:])
			return nil
		})
	}
	size := int64(dst.DType().Size())
	if size == 0 {
		return status.InvalidArgumentf("Dtype %v not supported.", dst.DType())
	}
	return b.runs(to, from, func(d, s, n int64) error {
		copy(dst.Data()[d*size:(d+n)*size], src.Data()[s*size:])
		return nil
	})
}

// sliceSet holds the slices of a tensor in a checkpoint, which do not overlap.
type sliceSet struct {
	shape tensor.Shape
	dtype tensor.DType
	list  []saved
	byKey map[string]int // by String
	hull  box
}

// saved is a slice and, if a tensor's slices are in several files, its file.
type saved struct {
	view
	file int
}

func (set *sliceSet) register(s Slice, file int) error {
	v, err := newView(s, set.shape)
	if err != nil {
		return err
	}
	all := set.box(s)
	if set.byKey == nil {
		set.byKey, set.hull = map[string]int{}, all
	} else if set.hull.touches(all) {
		for _, have := range set.list {
			if _, ok := overlap(have.slice, s, set.shape); ok {
				return status.Internalf("Overlapping slices: existing slice = %v, new slice = %v", have.slice, s)
			}
		}
	}
	for i, start := range all.start {
		end := max(set.hull.start[i]+set.hull.size[i], start+all.size[i])
		set.hull.start[i] = min(set.hull.start[i], start)
		set.hull.size[i] = end - set.hull.start[i]
	}
	set.byKey[s.String()] = len(set.list)
	set.list = append(set.list, saved{v, file})
	return nil
}

func (set *sliceSet) box(s Slice) (b box) {
	for i, d := range set.shape {
		start, end := s[i].bounds(d)
		b.start, b.size = append(b.start, start), append(b.size, end-start)
	}
	return b
}

func (b box) touches(c box) bool {
	for i := range b.start {
		if b.start[i] >= c.start[i]+c.size[i] || c.start[i] >= b.start[i]+b.size[i] {
			return false
		}
	}
	return true
}

// find returns the slices that together cover a slice; ok is false if they do not.
func (set *sliceSet) find(s Slice) (list []saved, ok bool) {
	if i, ok := set.byKey[s.String()]; ok {
		return set.list[i : i+1], true
	}
	shape, err := s.Shape(set.shape)
	if err != nil {
		return nil, false
	}
	missing := int64(shape.Elements())
	for _, have := range set.list {
		if b, ok := overlap(have.slice, s, set.shape); ok {
			missing -= b.elements()
			list = append(list, have)
		}
	}
	return list, missing == 0
}
