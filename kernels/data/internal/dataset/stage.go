package dataset

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
)

// StageStats describes what one stage of a pipeline has done since its iterator was initialized, and what it holds now. All iterators of
// the same dataset in the same place, such as those that a flat map opens in turn, are one stage.
type StageStats struct {
	// Name is the transformation, as TensorFlow names its iterators: Map, ParallelMapV2, FiniteTake.
	Name string
	// Node is the name of the node that created the dataset; empty for a part of a dataset, such as the map of a map-and-batch.
	Node string
	// Parent is the index of the stage that consumes this one's elements; -1 for the last stage, whose elements the iterator returns.
	Parent int
	// Open is how many iterators of the stage are open.
	Open int64
	// Elements is how many elements the stage has returned. After the first 1,000, up to 15 of each open iterator may not be counted yet.
	Elements int64
	// Since is the time since the stage was first opened, and Rate the elements per second over that time.
	Since time.Duration
	Rate  float64
	// ConsumerWait is how long the stage's reader has waited for an element, and ProducerWait how long the stage has waited for room in its
	// buffer. Only stages that work ahead have these times. For the last stage, ConsumerWait is how long steps have waited for the
	// iterator.
	ConsumerWait, ProducerWait time.Duration
	// Buffered is how many elements the stage holds, and BufferSize the maximum (0: unbounded, -1: no buffer).
	Buffered, BufferSize int64
	// Bytes is the size of what the stage holds. For shuffle and cache it is estimated from the latest element.
	Bytes int64
	// Running is the number of function calls in flight, and Parallelism the maximum (0 if the stage makes one call at a time).
	Running, Parallelism int64
	// Tuned means that the server chose BufferSize or Parallelism.
	Tuned bool
}

// maxStages bounds the distinct stages of a pipeline, since functions could create datasets endlessly.
const maxStages = 1000

// Stage represents the iterators of one dataset in one place of a pipeline.
type Stage struct {
	name, node string
	// dataset is the name of the dataset in errors of its functions; empty if these errors do not name it.
	dataset string
	parent  *Stage
	begun   time.Time

	open, elements, consumerWait, producerWait atomic.Int64
	// held is the number of elements in a buffer without a lock of its own, and heldBytes their size, as last reported by the iterator.
	held, heldBytes atomic.Int64

	mu       sync.Mutex
	children map[stageKey]*Stage
	order    []*Stage
	buffers  map[Buffered]struct{}
}

type stageKey struct{ name, node string }

// Buffered is an iterator that reports what it holds, from any goroutine.
type Buffered interface {
	// Fill adds the iterator's contents to the stage's stats.
	Fill(s *StageStats)
}

// Attach and detach add and remove a buffer of the stage. A nil stage ignores them.
func (s *Stage) Attach(b Buffered) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buffers == nil {
		s.buffers = map[Buffered]struct{}{}
	}
	s.buffers[b] = struct{}{}
}

// Detach undoes Attach.
func (s *Stage) Detach(b Buffered) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buffers, b)
}

// Hold records the contents of a buffer without a lock: n elements, each the size of e.
func (s *Stage) Hold(n int64, e Element) {
	if s != nil {
		s.held.Store(n)
		s.heldBytes.Store(n * e.Bytes())
	}
}

// WaitsForElement starts a consumer's wait, and returns the function that ends it.
func (s *Stage) WaitsForElement() func() {
	return s.wait(func(s *Stage) *atomic.Int64 { return &s.consumerWait })
}

// WaitsForRoom starts a producer's wait, and returns the function that ends it.
func (s *Stage) WaitsForRoom() func() {
	return s.wait(func(s *Stage) *atomic.Int64 { return &s.producerWait })
}

func (s *Stage) wait(of func(*Stage) *atomic.Int64) func() {
	if s == nil {
		return func() {}
	}
	begun := time.Now()
	return func() { of(s).Add(int64(time.Since(begun))) }
}

// enter returns the environment for a dataset's iterator, in a stage below e's.
func (e *Env) enter(d *Dataset) *Env {
	node := ""
	if d.Node != nil {
		node = d.Node.Name
	}
	return &Env{shared: e.shared, op: d.Op, Stage: e.child(stageName(d), node, d.label()), stats: e.stats, depth: e.depth + 1, calls: e.calls, reader: e}
}

// child returns the stage of that name below the environment's; nil if the pipeline has too many stages.
func (e *Env) child(name, node, dataset string) *Stage {
	if e.Stage == nil {
		return nil
	}
	key := stageKey{name, node}
	p := e.Stage
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.children[key]; s != nil {
		return s
	}
	if e.stageCount.Add(1) > maxStages {
		return nil
	}
	s := &Stage{name: name, node: node, dataset: dataset, parent: p, begun: time.Now()}
	if p.children == nil {
		p.children = map[stageKey]*Stage{}
	}
	p.children[key] = s
	p.order = append(p.order, s)
	return s
}

// maxDepth bounds how many iterators may be open inside one another, since each takes stack. Datasets created by functions may be open
// inside one another even if none is the input of another.
const maxDepth = MaxNesting + 1

// namesItself are the ops whose errors name the dataset in which a function failed. Other TensorFlow datasets, such as generators, scans
// and groups, return the function's error unchanged (IteratorBase::AddErrorContext and its callers).
var namesItself = []string{
	"FilterDataset", "FlatMapDataset", "InterleaveDataset", "LegacyParallelInterleaveDataset", "MapDataset",
	"ParallelInterleaveDataset", "ParallelMapDataset",
}

// label returns the dataset's name in errors: the name that the program gave it, or else the op and a number, as TensorFlow's do; empty if
// errors do not name it.
func (d *Dataset) label() string {
	if !slices.ContainsFunc(namesItself, func(op string) bool { return MatchesAnyVersion(op, d.Op) }) {
		return ""
	}
	if d.Node != nil {
		if name := metadataName(d.Node.Attrs); name != "" {
			return name
		}
	}
	if d.number == 0 {
		return d.Op
	}
	return d.Op + ":" + strconv.FormatInt(d.number, 10)
}

// metadataName returns the name in an attribute "metadata", a serialized Metadata with the name as its first field.
func metadataName(attrs graph.Attrs) (name string) {
	text, err := attrs.Str("metadata")
	if err != nil {
		return ""
	}
	for f, err := range protofield.All([]byte(text)) {
		switch {
		case err != nil:
			return "" // TensorFlow's ops ignore invalid metadata
		case f.Number == 1:
			name = string(f.Bytes)
		}
	}
	return name
}

// failed returns the error of a function that the iterator's dataset called. It names the dataset and the iterator if TensorFlow's does. The
// end of a dataset and cancelled calls are not errors of the function.
func (e *Env) failed(err error) error {
	if err == nil || e.Stage == nil || e.Stage.dataset == "" {
		return err
	}
	switch status.CodeOf(err) {
	case status.OutOfRange, status.Cancelled:
		return err
	}
	return status.Prefix(err, "Error in user-defined function passed to "+e.Stage.dataset+" transformation with iterator: "+e.path()+": ")
}

// Open creates the dataset's iterator in a stage of its own. A stage that changes nothing is omitted.
func (d *Dataset) Open(e *Env) (Iterator, error) {
	if k, ok := d.Kind.(Neutral); ok && k.ChangesNothing() {
		return d.Kind.Open(e)
	}
	in := e.enter(d)
	if in.depth > maxDepth {
		return nil, status.Errorf(status.ResourceExhausted, "Iterators of datasets are open in one another more than %d deep, which is the limit: does a function make a dataset that calls the function?", maxDepth)
	}
	if err := e.Pool().Reserve(iteratorBytes); err != nil {
		return nil, err
	}
	it, err := d.Kind.Open(in)
	if err != nil {
		e.Pool().Unreserve(iteratorBytes)
		return nil, err
	}
	if in.Stage != nil {
		in.Stage.open.Add(1)
	}
	return &counted{Iterator: it, stage: in.Stage, pool: e.Pool()}, nil
}

// counted is an iterator whose elements are counted.
type counted struct {
	Iterator
	stage       *Stage // nil if the pipeline has too many
	pool        *tensor.Pool
	given, told int64
}

// exactCount is how many elements of an iterator are counted individually. After that, the count is updated every sixteenth element.
const exactCount = 1000

// Reported reports whether a stage updates its statistics at its n-th element.
func Reported(n int64) bool { return n <= exactCount || n&15 == 0 }

// Next advances the iterator, unless the call was cancelled: this stops stages that loop over a dataset without useful elements.
func (it *counted) Next(c *Call) (Element, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	e, err := it.Iterator.Next(c)
	if err == nil {
		err = it.count(e)
	}
	if err == nil {
		if it.given++; Reported(it.given) {
			it.tell()
		}
		return e, nil
	}
	return nil, err
}

// count counts the tensors of an element: a later stage may hold many. If it fails, it releases the element.
func (it *counted) count(e Element) error {
	for _, t := range e {
		if err := t.CountIn(it.pool); err != nil {
			e.Release()
			return err
		}
	}
	return nil
}

func (it *counted) tell() {
	if it.stage == nil {
		return
	}
	it.stage.elements.Add(it.given - it.told)
	it.told = it.given
}

func (it *counted) Close() {
	it.tell()
	if it.stage != nil {
		it.stage.open.Add(-1)
	}
	it.Iterator.Close()
	it.pool.Unreserve(iteratorBytes)
}

// Stages lists the stages below the environment's own.
func (e *Env) Stages() []StageStats {
	var list []StageStats
	now := time.Now()
	var add func(s *Stage, parent int)
	add = func(s *Stage, parent int) {
		at := len(list)
		list = append(list, s.stats(now, parent))
		s.mu.Lock()
		children := s.order[:len(s.order):len(s.order)]
		s.mu.Unlock()
		for _, c := range children {
			add(c, at)
		}
	}
	if e.Stage == nil {
		return nil
	}
	e.Stage.mu.Lock()
	first := e.Stage.order[:len(e.Stage.order):len(e.Stage.order)]
	e.Stage.mu.Unlock()
	for _, s := range first {
		add(s, -1)
	}
	return list
}

func (s *Stage) stats(now time.Time, parent int) StageStats {
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
	all := make([]Buffered, 0, len(s.buffers))
	for b := range s.buffers {
		all = append(all, b)
	}
	s.mu.Unlock()
	for _, b := range all {
		b.Fill(&out)
	}
	return out
}

// After returns the names of the stages that consume this one's elements, the nearest first.
func (s *Stage) After() []string {
	var names []string
	for s = s.parent; s != nil && s.parent != nil; s = s.parent {
		names = append(names, s.name)
	}
	return names
}

// stageName returns the name of a dataset's iterators in TensorFlow.
func stageName(d *Dataset) string {
	if k, ok := d.Kind.(StageNamer); ok {
		return k.StageName()
	}
	name := strings.TrimPrefix(d.Op, "Experimental")
	if before, version, ok := strings.Cut(name, "Dataset"); ok {
		name = before + version
	}
	return name
}

// Recorder receives what stages measure.
type Recorder interface {
	// Record adds a value of the statistic of that name. It belongs to the step-th element.
	Record(name string, v float64, step int64) error
}

// Recorder returns the recorder of the pipeline's stages; nil if there is none.
func (e *Env) Recorder() Recorder { return e.stats }

// WithRecorder returns an environment whose stages report to a recorder.
func (e *Env) WithRecorder(r Recorder) *Env {
	c := *e
	c.stats = r
	return &c
}
