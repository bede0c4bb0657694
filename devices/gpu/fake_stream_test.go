package gpu

import (
	"encoding/binary"
	"fmt"
)

// fakeStream is a stream of a fakeCard.
type fakeStream struct {
	x   *fakeContext
	ops []op
}

// op is an operation in a stream: work, the recording of an event, or the wait for one.
type op struct {
	run    func() error // returns errGate while it cannot run
	record *recording
	wait   *recording
}

type recording struct {
	stream *fakeStream
	done   bool
}

type fakeEvent struct {
	x    *fakeContext
	last *recording
}

var errGate = fmt.Errorf("the gate is shut")

func (s *fakeStream) put(name string, o op) error {
	c, end, err := s.x.begin(name)
	defer end()
	if err != nil {
		return err
	}
	s.ops = append(s.ops, o)
	if r := c.m.chance; r != nil && r.IntN(3) == 0 {
		ahead := c.streams[r.IntN(len(c.streams))]
		for range r.IntN(6) {
			if !ahead.step() {
				break
			}
		}
	}
	return nil
}

// step runs the next op, or what it waits for. It returns false if nothing can run.
func (s *fakeStream) step() bool {
	if len(s.ops) == 0 || s.x.card.broken != nil {
		return false
	}
	o := s.ops[0]
	switch {
	case o.wait != nil:
		for !o.wait.done {
			if !o.wait.stream.step() {
				return false
			}
		}
	case o.record != nil:
		o.record.done = true
		s.x.card.m.changed.Broadcast()
	default:
		if err := o.run(); err != nil {
			return false
		}
	}
	s.ops = s.ops[1:]
	return true
}

func (s *fakeStream) copy(name string, f func() error) error { return s.put(name, op{run: f}) }

func (s *fakeStream) memory(addr uint64, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if b := s.x.card.m.at(addr, n); b != nil {
		return b, nil
	}
	return nil, s.x.card.fault(700, "ILLEGAL_ADDRESS", fmt.Sprintf("%d bytes at %x", n, addr))
}

func (s *fakeStream) Launch(f Function, grid, block [3]uint32, shared uint32, args []uint64) error {
	if block[0] > 1024 {
		return &Error{Call: "Launch", Code: 1, Name: "INVALID_VALUE", Text: "block"}
	}
	if s.x.card.idle {
		return nil
	}
	k, args := functions[f-1], append([]uint64(nil), args...)
	return s.put("Launch", op{run: func() error {
		if s.x.card.gates[k.name] {
			return errGate
		}
		return k.run(s, args)
	}})
}

func (s *fakeStream) CopyIn(dst uint64, src []byte) error {
	return s.copy("CopyIn", func() error {
		to, err := s.memory(dst, int64(len(src)))
		copy(to, src)
		return err
	})
}

func (s *fakeStream) CopyOut(dst []byte, src uint64) error {
	return s.copy("CopyOut", func() error {
		from, err := s.memory(src, int64(len(dst)))
		copy(dst, from)
		return err
	})
}

func (s *fakeStream) Copy(dst, src uint64, n int64) error {
	return s.copy("Copy", func() error {
		from, err := s.memory(src, n)
		if err != nil {
			return err
		}
		to, err := s.memory(dst, n)
		copy(to, from)
		return err
	})
}

func (s *fakeStream) Fill(dst uint64, value byte, n int64) error {
	return s.copy("Fill", func() error {
		to, err := s.memory(dst, n)
		for i := range to {
			to[i] = value
		}
		return err
	})
}

func (s *fakeStream) Record(e Event) error {
	r := &recording{stream: s}
	err := s.put("Record", op{record: r})
	s.x.card.m.mu.Lock()
	e.(*fakeEvent).last = r
	s.x.card.m.mu.Unlock()
	return err
}

func (s *fakeStream) Wait(e Event) error {
	s.x.card.m.mu.Lock()
	r := e.(*fakeEvent).last
	s.x.card.m.mu.Unlock()
	if r == nil {
		return nil
	}
	return s.put("Wait", op{wait: r})
}

func (s *fakeStream) Synchronize() error {
	return (&fakeEvent{x: s.x, last: &recording{stream: s}}).Synchronize()
}

func (s *fakeStream) Close() error {
	c, end, err := s.x.begin("Stream.Close")
	defer end()
	for i, o := range c.streams {
		if o == s {
			c.streams = append(c.streams[:i], c.streams[i+1:]...)
		}
	}
	return err
}

func (e *fakeEvent) Synchronize() error {
	c, end, err := e.x.begin("Synchronize")
	defer end()
	if err != nil || e.last == nil {
		return err
	}
	for r := e.last; !r.done; {
		if !r.stream.step() {
			if c.broken != nil {
				return c.call("Synchronize")
			}
			c.m.changed.Wait()
		}
	}
	return nil
}

func (e *fakeEvent) Done() (bool, error) {
	_, end, err := e.x.begin("Done")
	defer end()
	return e.last == nil || e.last.done, err
}

func (e *fakeEvent) Close() error {
	c, end, err := e.x.begin("Event.Close")
	defer end()
	c.events--
	return err
}

// functions are the kernels of all fake cards. The operands of test kernels are bytes. Others have the names of ops' kernels; Sign's has a
// bug.
var functions = []struct {
	name string
	run  func(s *fakeStream, args []uint64) error
}{
	{"add", func(s *fakeStream, a []uint64) error { // dst, src, n, value
		return s.each(a[0], a[1], a[2], func(b byte) byte { return b + byte(a[3]) })
	}},
	{"slow", func(s *fakeStream, a []uint64) error {
		return s.each(a[0], a[1], a[2], func(b byte) byte { return b + byte(a[3]) })
	}},
	{"neg_u64", func(s *fakeStream, a []uint64) error {
		return s.ints(a[0], a[1], a[2], func(v int64) int64 { return -v })
	}},
	{"square_u64", func(s *fakeStream, a []uint64) error {
		return s.ints(a[0], a[1], a[2], func(v int64) int64 { return v * v })
	}},
	{"sign_i64", func(s *fakeStream, a []uint64) error { return s.ints(0, a[1], a[2], nil) }},
	{"fault", func(s *fakeStream, a []uint64) error {
		return s.x.card.fault(700, "ILLEGAL_ADDRESS", "an illegal memory access was encountered")
	}},
}

func (s *fakeStream) each(dst, src, n uint64, f func(byte) byte) error {
	from, err := s.memory(src, int64(n))
	if err != nil {
		return err
	}
	to, err := s.memory(dst, int64(n))
	for i := range to {
		to[i] = f(from[i])
	}
	return err
}

func (s *fakeStream) ints(src, dst, n uint64, f func(int64) int64) error {
	from, err := s.memory(src, 8*int64(n))
	if err != nil {
		return err
	}
	to, err := s.memory(dst, 8*int64(n))
	for ; len(to) > 0; from, to = from[8:], to[8:] {
		binary.LittleEndian.PutUint64(to, uint64(f(int64(binary.LittleEndian.Uint64(from)))))
	}
	return err
}
