package data

import (
	"io"
	"runtime"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// parallelMap is mapped with several concurrent calls of the function.
type parallelMap struct {
	mapped
	parallelism
	ordered bool // results come in the order of the elements
}

// parallelism is the maximum number of calls in flight.
type parallelism struct {
	calls int64
	tuned bool // chosen by the server
}

// order is an attribute "deterministic": true, false, or default, which defers to the dataset's options.
type order string

func newOrder(s *settings, attr string) order {
	o := order(s.Str(attr))
	switch o {
	case "true", "false", "default":
	default:
		s.Failf("Attr '%s' must be 'true', 'false' or 'default', got '%s'", attr, o)
	}
	return o
}

func newParallelMap(s *settings) maker {
	f, keeps, o := s.function("f"), s.Bool("preserve_cardinality"), newOrder(s, "deterministic")
	return func(in *inputs) kind {
		last := in.ctx.NumInputs() - 1
		return &parallelMap{mapOf(in.dataset(0), in.function(f, 1, last), keeps), in.parallelCalls(in.int(last, "num_parallel_calls")), o != "false"}
	}
}

// newParallelMapV1 parses ParallelMapDataset, whose number of calls is an int32.
func newParallelMapV1(s *settings) maker {
	f, keeps, sloppy := s.function("f"), s.Bool("preserve_cardinality"), s.Bool("sloppy")
	return func(in *inputs) kind {
		last := in.ctx.NumInputs() - 1
		n := scalar(in, last, "num_parallel_calls", tensor.Int32, func(t *tensor.Tensor) int32 { return tensor.Of[int32](t)[0] })
		return &parallelMap{mapOf(in.dataset(0), in.function(f, 1, last), keeps), in.parallelCalls(int64(n)), !sloppy}
	}
}

// parallelCalls returns n calls or, if the choice is left to the server, one per processor. TensorFlow tunes it between one and that
// number.
func (in *inputs) parallelCalls(n int64) parallelism {
	if n == autotune {
		return parallelism{parallelismOfHost(), true}
	}
	if in.err == nil && n <= 0 {
		in.failf("num_parallel_calls must be greater than zero.")
	}
	return parallelism{calls: min(n, maxParallel)}
}

// parallelismOfHost returns the number of processors.
func parallelismOfHost() int64 { return int64(runtime.GOMAXPROCS(0)) }

// maxParallel bounds the goroutines of a stage.
const maxParallel = 1024

// newMapAndBatch parses a parallel map whose results are batched.
func newMapAndBatch(s *settings) maker {
	f, n := s.function("f"), len(s.TypeList("Targuments"))
	return func(in *inputs) kind {
		m := &parallelMap{mapOf(in.dataset(0), in.function(f, 1, 1+n), true), in.parallelCalls(in.int(2+n, "num_parallel_calls")), true}
		return &batch{in.within(m, "ParallelMapDataset"), in.batchSize(1 + n), in.bool(3+n, "drop_remainder"), true}
	}
}

// within creates a dataset that is part of the new one, and moves the inputs read so far into it.
func (in *inputs) within(k kind, op string) *Dataset {
	d := &Dataset{kind: k, Op: op, Spec: in.spec, inputs: in.inputs, tensors: in.tensors}
	d.refs.Store(1)
	in.inputs, in.tensors = []*Dataset{d}, nil
	return d
}

func (k *parallelMap) open(e *Env) (Iterator, error) {
	f, err := e.bind(k.f)
	if err != nil {
		return nil, err
	}
	return openOver(e, k.input, func(o over) Iterator {
		return &mappingAhead{over: o, of: k, stage: e.stage, apply: func(c *Call, e Element) (Element, error) { return f.call(c, e) }}
	})
}

// result is a call's result, or the input's outcome if it returned no element.
type result struct {
	outcome
	done bool
}

// mappingAhead has one goroutine that reads the input, and one for each call. It starts with the first Next.
type mappingAhead struct {
	over
	of    *parallelMap
	stage *stage
	crew  *crew
	// apply calls the function for one element, which it takes over.
	apply func(c *Call, e Element) (Element, error)

	asking  sync.Mutex // held while the input is read and a call starts
	mu      sync.Mutex
	results []*result // in the order of the elements
	running int64
	ended   bool
	news    chan struct{}
}

func (it *mappingAhead) begin(c *Call) {
	if it.crew == nil {
		it.crew = newCrew(c.Env)
		it.news = make(chan struct{})
		it.stage.attach(it)
		it.crew.start(it.work)
	}
}

func (it *mappingAhead) changed() {
	close(it.news)
	it.news = make(chan struct{})
}

// fill adds the calls in flight and the pending results.
func (it *mappingAhead) fill(s *StageStats) {
	it.mu.Lock()
	defer it.mu.Unlock()
	s.Running += it.running
	s.Parallelism += it.of.calls
	s.Buffered += int64(len(it.results)) - it.running
	s.BufferSize = max(s.BufferSize, 0) + it.of.calls
	s.Tuned = s.Tuned || it.of.tuned
	for _, r := range it.results {
		if r.done {
			s.Bytes += r.bytes()
		}
	}
}

// work starts calls while there is room.
func (it *mappingAhead) work() {
	for it.room() {
		it.asking.Lock()
		e, err := it.crew.next(it.input)
		it.mu.Lock()
		if atEnd(err) {
			it.ended = true
		} else {
			r := &result{outcome: outcome{nil, err}, done: err != nil}
			it.results = append(it.results, r)
			if err == nil {
				it.running++
				it.crew.start(func() { it.call(r, e) })
			}
		}
		ended := it.ended
		it.changed()
		it.mu.Unlock()
		it.asking.Unlock()
		if ended {
			return
		}
	}
}

func (it *mappingAhead) call(r *result, e Element) {
	e, err := it.apply(it.crew.Call, e)
	it.mu.Lock()
	defer it.mu.Unlock()
	r.outcome, r.done = outcome{e, endedBy(err, it.of.keeps)}, true
	it.running--
	it.changed()
}

// room waits until another call may start; false if no more are needed.
func (it *mappingAhead) room() bool {
	for {
		it.mu.Lock()
		room, news, ended := it.running < it.of.calls && int64(len(it.results)) < it.of.calls, it.news, it.ended
		it.mu.Unlock()
		if ended || it.crew.Cancellation.Err() != nil {
			return false
		}
		if room {
			return true
		}
		end := it.stage.waitsForRoom()
		select {
		case <-news:
			end()
		case <-it.crew.Done:
			return false
		}
	}
}

func (it *mappingAhead) Next(c *Call) (Element, error) {
	it.begin(c)
	for {
		it.mu.Lock()
		if r := it.take(); r != nil {
			it.changed()
			it.mu.Unlock()
			return r.Element, r.err
		}
		over, news := it.ended && len(it.results) == 0, it.news
		it.mu.Unlock()
		if over {
			return nil, io.EOF
		}
		end := it.stage.waitsForElement()
		select {
		case <-news:
			end()
		case <-c.Done:
			return nil, c.Err()
		case <-it.crew.Done:
			return nil, it.crew.Err()
		}
	}
}

// take removes a result that may be returned. If a function ended the dataset, nothing is returned after that result. The caller holds mu.
func (it *mappingAhead) take() *result {
	for i, r := range it.results {
		if !r.done {
			if it.of.ordered {
				return nil
			}
			continue
		}
		if !atEnd(r.err) {
			it.results = append(it.results[:i:i], it.results[i+1:]...)
		}
		return r
	}
	return nil
}

func (it *mappingAhead) Close() {
	if it.crew != nil {
		it.crew.close()
	}
	it.stage.detach(it)
	it.mu.Lock()
	for _, r := range it.results {
		r.release()
	}
	it.results = nil
	it.mu.Unlock()
	it.over.Close()
}

func (it *mappingAhead) Save(c *Call, w *Writer) {
	it.asking.Lock()
	defer it.asking.Unlock()
	it.mu.Lock()
	defer it.mu.Unlock()
	for it.running > 0 {
		news := it.news
		it.mu.Unlock()
		select {
		case <-news:
		case <-c.Done:
			it.mu.Lock()
			w.Fail(c.Err())
			return
		}
		it.mu.Lock()
	}
	w.Bool("ended", it.ended)
	list := make([]outcome, len(it.results))
	for i, r := range it.results {
		list[i] = r.outcome
		if atEnd(r.err) {
			list[i].err = errEnded
		}
	}
	saveOutcomes(w, "results", list)
	it.over.Save(c, w)
}

// errEnded represents the end in a saved state.
var errEnded = status.New(status.OutOfRange, "End of sequence")

func (it *mappingAhead) Restore(c *Call, r *Reader) {
	it.ended = r.Bool("ended")
	for _, o := range restoreOutcomes(r, "results") {
		if status.CodeOf(o.err) == status.OutOfRange {
			o.err = io.EOF
		}
		it.results = append(it.results, &result{o, true})
	}
	it.over.Restore(c, r)
}
