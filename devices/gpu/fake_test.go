package gpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"unsafe"
)

// machine is a driver in Go whose cards are memory of the process. What is put into a stream runs late: when something waits
// for it, or when chance has another stream run ahead, so that a missing event shows in what is computed. What no card
// would take is an error that breaks the context: memory that was not allocated, calls on threads that are not bound.
type machine struct {
	mu      sync.Mutex
	changed sync.Cond
	chance  *rand.Rand // nil: nothing runs before it is waited for
	cards   []*fakeCard
}

func newMachine(cards int, memory int64) *machine {
	m := &machine{}
	m.changed.L = &m.mu
	for i := range cards {
		m.cards = append(m.cards, &fakeCard{m: m, index: i, memory: memory, next: uint64(i+1) << 40, gates: map[string]bool{}})
	}
	return m
}

func (m *machine) Cards() (all []Card, err error) {
	for _, c := range m.cards {
		all = append(all, c)
	}
	return all, nil
}

// fakeCard is a card; what is in its one context goes with a reset.
type fakeCard struct {
	m       *machine
	index   int
	memory  int64
	next    uint64
	used    int64
	areas   []area // of the card's memory
	pinned  map[*byte]int
	streams []*fakeStream
	events  int
	opened  int
	resets  int
	broken  *Error
	// refuse, if not nil, is asked for an error before each call.
	refuse func(call string) error
	gates  map[string]bool // functions that wait until the gate opens
	loads  int
	idle   bool // launches do nothing
}

// shut has all launches of a function wait, or go on.
func (m *machine) shut(function string, wait bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.cards {
		c.gates[function] = wait
	}
	m.changed.Broadcast()
}

type area struct {
	addr  uint64
	bytes []byte
}

func (c *fakeCard) Info() Info {
	return Info{Name: "Fake", PCI: fmt.Sprintf("0000:0%d:00.0", c.index), Memory: c.memory, Compute: 90, Processors: 4, SharedMemory: 48 << 10}
}

// lock begins a call.
func (c *fakeCard) call(name string) error {
	if c.broken != nil {
		e := *c.broken
		e.Call = name
		return &e
	}
	if c.refuse != nil {
		return c.refuse(name)
	}
	return nil
}

func (c *fakeCard) fault(code int, name, text string) error {
	c.broken = &Error{Call: "kernel", Code: code, Name: name, Text: text, Sticky: true}
	c.m.changed.Broadcast()
	return c.broken
}

func (c *fakeCard) Open() (Context, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse("Open"); err != nil {
			return nil, err
		}
	}
	c.opened++
	return &fakeContext{card: c, epoch: c.resets, bound: map[int]bool{}}, nil
}

// at is the card's memory from addr on.
func (m *machine) at(addr uint64, n int64) []byte {
	for _, c := range m.cards {
		for _, a := range c.areas {
			if addr >= a.addr && addr+uint64(n) <= a.addr+uint64(len(a.bytes)) {
				return a.bytes[addr-a.addr:][:n]
			}
		}
	}
	return nil
}

type fakeContext struct {
	card   *fakeCard
	epoch  int
	bound  map[int]bool
	closed bool
}

func (x *fakeContext) begin(name string) (*fakeCard, func(), error) {
	c := x.card
	c.m.mu.Lock()
	err := c.call(name)
	switch {
	case err != nil:
	case x.closed || x.epoch != c.resets:
		err = &Error{Call: name, Code: 709, Name: "CONTEXT_IS_DESTROYED", Sticky: true}
	case !x.bound[thread()] && !x.bound[0]:
		err = c.fault(201, "INVALID_CONTEXT", name+" on a thread that is not bound")
	}
	return c, c.m.mu.Unlock, err
}

func (x *fakeContext) Bind() error {
	x.card.m.mu.Lock()
	defer x.card.m.mu.Unlock()
	x.bound[thread()] = true
	return nil
}

func (x *fakeContext) MemoryInfo() (int64, int64, error) {
	c, end, err := x.begin("MemoryInfo")
	defer end()
	return c.memory - c.used, c.memory, err
}

func (x *fakeContext) Alloc(n int64) (uint64, error) {
	c, end, err := x.begin("Alloc")
	defer end()
	if err != nil {
		return 0, err
	}
	if c.used+n > c.memory {
		return 0, &Error{Call: "Alloc", Code: 2, Name: "OUT_OF_MEMORY", OutOfMemory: true}
	}
	b := bytes.Repeat([]byte{0xEE}, int(n))
	addr := c.next
	c.next += uint64(n) + 4096
	c.used += n
	c.areas = append(c.areas, area{addr, b})
	return addr, nil
}

func (x *fakeContext) Free(addr uint64) error {
	c, end, err := x.begin("Free")
	defer end()
	for i, a := range c.areas {
		if err == nil && a.addr == addr {
			c.areas = append(c.areas[:i], c.areas[i+1:]...)
			c.used -= int64(len(a.bytes))
			return nil
		}
	}
	if err == nil {
		err = c.fault(1, "INVALID_VALUE", "Free")
	}
	return err
}

func (x *fakeContext) AllocHost(n int64) ([]byte, error) {
	c, end, err := x.begin("AllocHost")
	defer end()
	if err != nil {
		return nil, err
	}
	if c.pinned == nil {
		c.pinned = map[*byte]int{}
	}
	b := make([]byte, n)
	c.pinned[unsafe.SliceData(b)] = int(n)
	return b, nil
}

// FreeHost spoils what it takes, since nobody may look at it any more.
func (x *fakeContext) FreeHost(b []byte) error {
	c, end, err := x.begin("FreeHost")
	defer end()
	p := unsafe.SliceData(b)
	if n := c.pinned[p]; err == nil && n != len(b) {
		return c.fault(1, "INVALID_VALUE", "FreeHost")
	}
	delete(c.pinned, p)
	for i := range b {
		b[i] = 0xDD
	}
	return err
}

func (x *fakeContext) Function(name string) (Function, error) {
	c, end, err := x.begin("Function")
	defer end()
	c.loads++
	for i := range functions {
		if err == nil && functions[i].name == name {
			return Function(i + 1), nil
		}
	}
	if err == nil {
		err = &Error{Call: "Function", Code: 500, Name: "NOT_FOUND", Text: name}
	}
	return 0, err
}

func (x *fakeContext) NewStream() (Stream, error) {
	c, end, err := x.begin("NewStream")
	defer end()
	if err != nil {
		return nil, err
	}
	s := &fakeStream{x: x}
	c.streams = append(c.streams, s)
	return s, nil
}

func (x *fakeContext) NewEvent() (Event, error) {
	c, end, err := x.begin("NewEvent")
	defer end()
	c.events++
	return &fakeEvent{x: x}, err
}

func (x *fakeContext) Blas() (Blas, error) { return nil, nil }

func (x *fakeContext) Close(reset bool) error {
	c := x.card
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	x.closed = true
	c.opened--
	if reset && x.epoch == c.resets {
		c.resets++
		for _, s := range c.streams { // nobody waits any more for what is gone
			for _, o := range s.ops {
				if o.record != nil {
					o.record.done = true
				}
			}
		}
		for p, n := range c.pinned { // who still looks at it sees nothing
			clear(unsafe.Slice(p, n))
		}
		c.broken, c.areas, c.used, c.streams, c.events, c.pinned = nil, nil, 0, nil, 0, nil
		c.m.changed.Broadcast()
	}
	return nil
}

type fakeStream struct {
	x   *fakeContext
	ops []op
}

// op is something in a stream: work, the recording of an event, or the wait for one.
type op struct {
	run    func() error // ends with errGate while it cannot run
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

// step runs the next op, or what it waits for; false if nothing can run.
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

// functions are the kernels of all fake cards. Operands of those for tests are bytes; others are named like
// those of ops, of which Sign's has a bug.
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
