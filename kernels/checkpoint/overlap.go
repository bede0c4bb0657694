package checkpoint

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// box is a part of a tensor by absolute positions.
type box struct{ start, size []int64 }

// overlap is what two slices of a tensor have in common; ok is false when that is nothing.
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

func (e Extent) bounds(size int64) (start, end int64) {
	if e.Length < 0 {
		return 0, size
	}
	return e.Start, e.Start + e.Length
}

func (e Extent) first() int64 {
	if e.Length < 0 {
		return 0
	}
	return e.Start
}

// copy copies the box from src, slice from of a tensor, to dst, slice to of it, and gives the
// number of elements.
func (b box) copy(dst *tensor.Tensor, to Slice, src *tensor.Tensor, from Slice) int {
	size := dst.DType().Size()
	if len(b.size) == 0 {
		return copy(dst.Data(), src.Data()) / size
	}
	last := len(b.size) - 1
	run := int(b.size[last]) * size
	at := make([]int64, last)
	rows := tensor.Shape(b.size[:last]).Elements()
	for range rows {
		d, s := int64(0), int64(0)
		for i := range b.size {
			p := b.start[i]
			if i < last {
				p += at[i]
			}
			d = d*dst.Shape()[i] + p - to[i].first()
			s = s*src.Shape()[i] + p - from[i].first()
		}
		copy(dst.Data()[int(d)*size:int(d)*size+run], src.Data()[int(s)*size:])
		for i := last - 1; i >= 0; i-- {
			if at[i]++; at[i] < b.size[i] {
				break
			}
			at[i] = 0
		}
	}
	return rows * int(b.size[last])
}

// cutOut is a slice of a tensor as one of its own.
func cutOut(pool *tensor.Pool, t *tensor.Tensor, s Slice, shape tensor.Shape) (*tensor.Tensor, error) {
	if t.DType().Size() == 0 {
		return nil, status.Unimplementedf("Restoring a slice of a tensor of type %v is not supported", t.DType())
	}
	out, err := tensor.New(pool, t.DType(), shape)
	if err != nil {
		return nil, err
	}
	all := make(Slice, len(s))
	for i := range all {
		all[i] = Extent{0, -1}
	}
	if b, ok := overlap(s, all, t.Shape()); ok {
		b.copy(out, s, t, all)
	}
	return out, nil
}
