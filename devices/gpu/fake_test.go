package gpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"unsafe"
)

// machine is a driver in Go whose cards are memory of the process. Stream operations run late: when something waits for them, or when
// chance lets another stream run ahead, so missing events affect results. Invalid operations break the context with an error, as on a card:
// accesses to unallocated memory, calls on unbound threads.
type machine struct {
	mu      sync.Mutex
	changed sync.Cond
	chance  *rand.Rand // if nil, nothing runs before it is waited for
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

// fakeCard is a card. A reset destroys the contents of its only context.
type fakeCard struct {
	m       *machine
	index   int
	memory  int64
	next    uint64
	used    int64
	areas   []area // allocated on the card
	pinned  map[*byte]int
	streams []*fakeStream
	events  int
	opened  int
	resets  int
	broken  *Error
	// refuse, if not nil, is called before each call and may return an error for it.
	refuse func(call string) error
	gates  map[string]bool // functions that wait until their gate opens
	loads  int
	idle   bool // launches do nothing
}

// shut makes all launches of a function wait, or continue.
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

// call begins a call.
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

// at returns n bytes of a card's memory at addr.
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

func (x *fakeContext) Pin(b []byte) error {
	c, end, err := x.begin("Pin")
	defer end()
	if err != nil {
		return err
	}
	if c.pinned == nil {
		c.pinned = map[*byte]int{}
	}
	c.pinned[unsafe.SliceData(b)] = len(b)
	return nil
}

func (x *fakeContext) Unpin(b []byte) error {
	c, end, err := x.begin("Unpin")
	defer end()
	p := unsafe.SliceData(b)
	if n := c.pinned[p]; err == nil && n != len(b) {
		return c.fault(1, "INVALID_VALUE", "Unpin")
	}
	delete(c.pinned, p)
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
		for _, s := range c.streams { // release waits for destroyed events
			for _, o := range s.ops {
				if o.record != nil {
					o.record.done = true
				}
			}
		}
		c.broken, c.areas, c.used, c.streams, c.events, c.pinned = nil, nil, 0, nil, 0, nil
		c.m.changed.Broadcast()
	}
	return nil
}
