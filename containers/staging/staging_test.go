package staging

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// transcript records the results of operations by name.
type transcript struct {
	*testing.T
	pool *tensor.Pool
	told []string
}

func newTranscript(t *testing.T) *transcript {
	s := &transcript{T: t, pool: tensor.NewPool("test", 1<<20)}
	t.Cleanup(func() {
		if n := s.pool.Stats().InUse; n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
	return s
}

// value returns a tensor of 32 bytes that begins with v.
func (s *transcript) value(v float32) *tensor.Tensor {
	t, err := tensor.Zeros(s.pool, tensor.Float32, tensor.Shape{8})
	if err != nil {
		s.Fatal(err)
	}
	tensor.Of[float32](t)[0] = v
	return t
}

func (s *transcript) values(all ...float32) (tuple []*tensor.Tensor) {
	for _, v := range all {
		tuple = append(tuple, s.value(v))
	}
	return tuple
}

func (s *transcript) put(name string) func(error) {
	return func(err error) { s.tell(name, nil, err) }
}

func (s *transcript) got(name string) func([]*tensor.Tensor, error) {
	return func(tuple []*tensor.Tensor, err error) { s.tell(name, tuple, err) }
}

func (s *transcript) tell(name string, tuple []*tensor.Tensor, err error) {
	for _, t := range tuple {
		name += fmt.Sprint(" ", tensor.Of[float32](t)[0])
		t.Release()
	}
	if err != nil {
		name += fmt.Sprintf(" %v: %v", status.CodeOf(err), err)
	}
	s.told = append(s.told, name)
}

func (s *transcript) expect(want ...string) {
	s.Helper()
	if got := strings.Join(s.told, "\n"); got != strings.Join(want, "\n") {
		s.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	s.told = nil
}

func TestBuffer(t *testing.T) {
	s := newTranscript(t)
	b := NewBuffer("b", Limits{Capacity: 2})
	b.Get(context.Background(), nil, s.got("get"))
	b.Peek(context.Background(), 1, s.got("peek"))
	b.Put(context.Background(), nil, s.values(1, 2), s.put("put"))
	s.expect("put", "get 1 2")
	b.Put(context.Background(), nil, s.values(3), s.put("put"))
	b.Put(context.Background(), nil, s.values(4), s.put("put"))
	s.expect("put", "put", "peek 4")
	b.Put(context.Background(), nil, s.values(5), s.put("put 5"))
	cancel := b.Put(context.Background(), nil, s.values(6), s.put("put 6"))
	s.expect()
	cancel(nil)
	s.expect("put 6 CANCELLED: Stage operation was cancelled")
	b.Get(context.Background(), nil, s.got("get"))
	s.expect("get 3", "put 5")
	if n := b.Size(); n != 2 {
		t.Errorf("size %d", n)
	}
	b.Peek(context.Background(), -1, s.got("peek"))
	s.expect("peek INVALID_ARGUMENT: index must not be negative, got -1")
	b.Put(context.Background(), nil, s.values(7), s.put("put 7"))
	var err error
	if b.Clear(context.Background(), nil, func(e error) { err = e }); err != nil {
		t.Error(err)
	}
	s.expect("put 7")
	b.Peek(context.Background(), 3, s.got("peek"))
	b.Close()
	s.expect("peek ABORTED: Staging area 'b' was deleted.")
}

func TestBufferMemory(t *testing.T) {
	s := newTranscript(t)
	b := NewBuffer("b", Limits{Bytes: 64})
	b.Put(context.Background(), nil, s.values(1, 2, 3), s.put("put"))
	s.expect("put RESOURCE_EXHAUSTED: Attempted to insert tensors with combined size of '96' bytes into Staging Area with a memory limit of '64'.")
	b.Put(context.Background(), nil, s.values(1), s.put("one"))
	b.Put(context.Background(), nil, s.values(2, 3), s.put("two"))
	b.Put(context.Background(), nil, s.values(4), s.put("small")) // fits
	s.expect("one", "small")
	b.Get(context.Background(), nil, s.got("get"))
	s.expect("get 1")
	b.Get(context.Background(), nil, s.got("get"))
	s.expect("get 4", "two")
	b.Close()
}

func (s *transcript) key(k int64) *tensor.Tensor { return tensor.Scalar(tensor.Int64, k) }

func TestMap(t *testing.T) {
	s := newTranscript(t)
	for _, ordered := range []bool{false, true} {
		m := NewMap("m", 2, ordered, Limits{Capacity: 3})
		m.Take(context.Background(), nil, 5, []int32{0, 1}, s.got("take 5"))
		m.Put(context.Background(), nil, s.key(5), []int32{1}, s.values(51), s.put("put"))
		if n, k := m.Size(), m.IncompleteSize(); n != 0 || k != 1 {
			t.Errorf("sizes %d, %d", n, k)
		}
		m.Put(context.Background(), nil, s.key(5), []int32{1}, s.values(0), s.put("put"))
		m.Put(context.Background(), nil, s.key(5), []int32{2}, s.values(0), s.put("put"))
		m.Put(context.Background(), nil, s.key(5), []int32{1, 0}, s.values(0, 0), s.put("put"))
		m.Put(context.Background(), nil, s.key(5), nil, nil, s.put("put"))
		s.expect("put", "put INVALID_ARGUMENT: The tensor for index '1' for key '5' was already initialized '2'.",
			"put INVALID_ARGUMENT: Index '2' for key '5' was out of bounds '2'.", "put INVALID_ARGUMENT: Indices are not strictly ordered",
			"put INVALID_ARGUMENT: Indices are empty")
		m.Put(context.Background(), nil, s.key(5), []int32{0}, s.values(50), s.put("put"))
		s.expect("put", "take 5 50 51")

		for _, k := range []int64{3, 1, 2} {
			m.Put(context.Background(), nil, s.key(k), []int32{0, 1}, s.values(float32(k), float32(10*k)), s.put("put"))
		}
		m.Put(context.Background(), nil, s.key(1), []int32{0}, s.values(7), s.put("part"))         // a part needs no room
		m.Put(context.Background(), nil, s.key(4), []int32{0, 1}, s.values(4, 40), s.put("put 4")) // a whole tuple does
		cancel := m.Take(context.Background(), nil, 9, []int32{0}, s.got("take 9"))
		m.Peek(context.Background(), 1, []int32{1}, s.got("peek"))
		m.Take(context.Background(), nil, 1, []int32{1}, s.got("take"))
		m.Take(context.Background(), nil, 1, []int32{0, 1}, s.got("take"))
		cancel(nil)
		s.expect("put", "put", "put", "part", "peek 10", "take 10",
			"take INVALID_ARGUMENT: Tensor at index '1' for key '1' has already been removed.", "take 9 CANCELLED: Unstage operation was cancelled")
		m.Take(context.Background(), nil, 1, []int32{0}, s.got("take"))
		s.expect("take 1", "put 4")
		any := func() {
			m.TakeAny(context.Background(), nil, []int32{0, 1}, func(key *tensor.Tensor, tuple []*tensor.Tensor, err error) {
				s.tell(fmt.Sprint("any ", tensor.Of[int64](key)[0]), tuple, err)
				key.Release()
			})
		}
		any()
		any()
		if ordered {
			s.expect("any 2 2 20", "any 3 3 30")
		} else {
			s.expect("any 3 3 30", "any 2 2 20")
		}
		m.Put(context.Background(), nil, s.key(4), []int32{0, 1}, s.values(0, 0), s.put("twice"))
		m.Peek(context.Background(), 4, []int32{0, 1}, s.got("peek"))
		s.expect("twice", "peek 4 40")
		var err error
		if m.Clear(context.Background(), nil, func(e error) { err = e }); err != nil || m.Size() != 0 || m.IncompleteSize() != 0 || m.bytes != 0 {
			t.Errorf("%v, %d bytes", err, m.bytes)
		}
		m.Put(context.Background(), nil, s.key(1), []int32{0}, s.values(7), s.put("part"))
		m.Close()
		s.told = nil
	}
}
