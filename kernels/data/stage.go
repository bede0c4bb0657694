package data

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// StageStats is what one stage of a pipeline has done since its iterator was initialized, and what it holds now. The
// iterators of the same dataset in the same place, such as those that a flat map opens one after the other, are one
// stage.
type StageStats struct {
	// Name is the transformation, as TensorFlow names its iterators: Map, ParallelMapV2, FiniteTake.
	Name string
	// Node is the name of the node that made the dataset; empty for a part of a dataset, such as the map of a
	// map-and-batch.
	Node string
	// Parent is the index of the stage that asks this one for elements; -1 for the last stage, whose elements the
	// iterator gives.
	Parent int
	// Open is how many iterators of the stage are open.
	Open int64
	// Elements is how many the stage has given. Of a stage that has given more than 1,000, the last 15 of each open
	// iterator may not be counted yet.
	Elements int64
	// Since is the time since the stage was first opened, and Rate the elements per second of it.
	Since time.Duration
	Rate  float64
	// ConsumerWait is how long the stage's reader has waited because no element was ready; ProducerWait how long what
	// fills the buffer has waited for room. Only stages that work ahead have these times; of the last stage, ConsumerWait
	// is how long steps have waited for the iterator.
	ConsumerWait, ProducerWait time.Duration
	// Buffered is the elements that the stage holds, of at most BufferSize (0: without a bound, -1: no buffer).
	Buffered, BufferSize int64
	// Bytes is the size of what the stage holds. For shuffle and cache it is estimated by the latest element.
	Bytes int64
	// Running is how many calls of a function are under way, of at most Parallelism (0 where the stage makes one at a time).
	Running, Parallelism int64
	// Tuned tells that the server chose BufferSize or Parallelism.
	Tuned bool
}

// Stages gives the stages of the iterator's pipeline, the last one first and each after its Parent; nil where the
// iterator has no dataset. It may be called at any time, also while a step waits for an element, and stops nothing: it
// reads counters, and locks each buffer for as long as it takes to add up its elements' sizes. Pipelines count whether
// or not somebody looks; that costs an addition for each element and stage.
func (r *Resource) Stages() []StageStats {
	r.mu.Lock()
	p := r.now
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	list := p.stages()
	if len(list) > 0 {
		list[0].ConsumerWait += time.Duration(r.waited.Load())
	}
	return list
}

// maxStages bounds the stages of a pipeline that are told apart. Functions could make datasets without end.
const maxStages = 1000

// stage is the iterators of one dataset in one place of a pipeline.
type stage struct {
	name, node string
	parent     *stage
	begun      time.Time

	open, elements, consumerWait, producerWait atomic.Int64
	// held is the elements of a buffer without a lock of its own, and heldBytes their size, as the iterator told them last.
	held, heldBytes atomic.Int64

	mu       sync.Mutex
	children map[stageKey]*stage
	order    []*stage
	buffers  map[buffered]struct{}
}

type stageKey struct{ name, node string }

// buffered is an iterator that tells what it holds, from any goroutine.
type buffered interface {
	// fill adds to the stage's stats what the iterator holds.
	fill(s *StageStats)
}

// attach and detach tell of a buffer of the stage. A nil stage has none.
func (s *stage) attach(b buffered) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buffers == nil {
		s.buffers = map[buffered]struct{}{}
	}
	s.buffers[b] = struct{}{}
}

func (s *stage) detach(b buffered) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buffers, b)
}

// hold tells what a buffer without a lock holds: n elements like e.
func (s *stage) hold(n int64, e Element) {
	if s != nil {
		s.held.Store(n)
		s.heldBytes.Store(n * e.bytes())
	}
}

// bytes is the size of an element in memory.
func (e Element) bytes() int64 {
	n := int64(0)
	for _, t := range e {
		n += int64(t.ByteSize())
	}
	return n
}

// waitsForElement and waitsForRoom begin a wait, and give what ends it.
func (s *stage) waitsForElement() func() {
	return s.wait(func(s *stage) *atomic.Int64 { return &s.consumerWait })
}

func (s *stage) waitsForRoom() func() {
	return s.wait(func(s *stage) *atomic.Int64 { return &s.producerWait })
}

func (s *stage) wait(of func(*stage) *atomic.Int64) func() {
	if s == nil {
		return func() {}
	}
	begun := time.Now()
	return func() { of(s).Add(int64(time.Since(begun))) }
}

// enter is the environment for a dataset's iterator, in a stage within that of e.
func (e *Env) enter(d *Dataset) *Env {
	node := ""
	if d.node != nil {
		node = d.node.Name
	}
	return &Env{shared: e.shared, stage: e.child(stageName(d), node), stats: e.stats}
}

// child is the stage of that name within the environment's; nil where the pipeline has too many.
func (e *Env) child(name, node string) *stage {
	if e.stage == nil {
		return nil
	}
	key := stageKey{name, node}
	p := e.stage
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.children[key]; s != nil {
		return s
	}
	if e.stageCount.Add(1) > maxStages {
		return nil
	}
	s := &stage{name: name, node: node, parent: p, begun: time.Now()}
	if p.children == nil {
		p.children = map[stageKey]*stage{}
	}
	p.children[key] = s
	p.order = append(p.order, s)
	return s
}

// open makes the dataset's iterator, in a stage of its own. A stage that changes nothing is left out.
func (d *Dataset) open(e *Env) (Iterator, error) {
	if k, ok := d.kind.(interface{ changesNothing() bool }); ok && k.changesNothing() {
		return d.kind.open(e)
	}
	in := e.enter(d)
	it, err := d.kind.open(in)
	if err != nil || in.stage == nil {
		return it, err
	}
	in.stage.open.Add(1)
	return &counted{Iterator: it, stage: in.stage}, nil
}

// counted is an iterator whose elements are counted.
type counted struct {
	Iterator
	stage       *stage
	given, told int64
}

// exactCount is how many elements of an iterator are counted at once. After those every sixteenth is.
const exactCount = 1000

func (it *counted) Next(c *Call) (Element, error) {
	e, err := it.Iterator.Next(c)
	if err == nil {
		if it.given++; it.given <= exactCount || it.given&15 == 0 {
			it.tell()
		}
	}
	return e, err
}

func (it *counted) tell() {
	it.stage.elements.Add(it.given - it.told)
	it.told = it.given
}

func (it *counted) Close() {
	it.tell()
	it.stage.open.Add(-1)
	it.Iterator.Close()
}

// stages lists the stages below the environment's.
func (e *Env) stages() []StageStats {
	var list []StageStats
	now := time.Now()
	var add func(s *stage, parent int)
	add = func(s *stage, parent int) {
		at := len(list)
		list = append(list, s.stats(now, parent))
		s.mu.Lock()
		children := s.order[:len(s.order):len(s.order)]
		s.mu.Unlock()
		for _, c := range children {
			add(c, at)
		}
	}
	if e.stage == nil {
		return nil
	}
	e.stage.mu.Lock()
	first := e.stage.order[:len(e.stage.order):len(e.stage.order)]
	e.stage.mu.Unlock()
	for _, s := range first {
		add(s, -1)
	}
	return list
}

func (s *stage) stats(now time.Time, parent int) StageStats {
	out := StageStats{
		Name: s.name, Node: s.node, Parent: parent, Open: s.open.Load(), Elements: s.elements.Load(), Since: now.Sub(s.begun),
		ConsumerWait: time.Duration(s.consumerWait.Load()), ProducerWait: time.Duration(s.producerWait.Load()), BufferSize: -1,
	}
	if sec := out.Since.Seconds(); sec > 0 {
		out.Rate = float64(out.Elements) / sec
	}
	if n := s.held.Load(); n > 0 {
		out.Buffered, out.Bytes, out.BufferSize = n, s.heldBytes.Load(), 0
	}
	s.mu.Lock()
	all := make([]buffered, 0, len(s.buffers))
	for b := range s.buffers {
		all = append(all, b)
	}
	s.mu.Unlock()
	for _, b := range all {
		b.fill(&out)
	}
	return out
}

// after gives the names of the stages that take this one's elements, the nearest first.
func (s *stage) after() []string {
	var names []string
	for s = s.parent; s != nil && s.parent != nil; s = s.parent {
		names = append(names, s.name)
	}
	return names
}

// stageName is the name of a dataset's iterators, as TensorFlow's.
func stageName(d *Dataset) string {
	if k, ok := d.kind.(interface{ stageName() string }); ok {
		return k.stageName()
	}
	name := strings.TrimPrefix(d.Op, "Experimental")
	if before, version, ok := strings.Cut(name, "Dataset"); ok {
		name = before + version
	}
	return name
}
