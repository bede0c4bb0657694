package mapping

import (
	"io"
	"runtime"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
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

// Ordering is an attribute "deterministic": true, false, or default, which defers to the dataset's options.
type Ordering string

// NewOrdering reads an attribute that chooses an ordering.
func NewOrdering(s *dataset.Settings, attr string) Ordering {
	o := Ordering(s.Str(attr))
	switch o {
	case "true", "false", "default":
	default:
		s.Failf("Attr '%s' must be 'true', 'false' or 'default', got '%s'", attr, o)
	}
	return o
}

func newParallelMap(s *dataset.Settings) dataset.Maker {
	f, keeps, o := s.Function("f"), s.Bool("preserve_cardinality"), NewOrdering(s, "deterministic")
	return func(in *dataset.Inputs) dataset.Kind {
		last := in.Context.NumInputs() - 1
		return &parallelMap{mapOf(in.Dataset(0), in.Function(f, 1, last), keeps), parallelCalls(in, in.Int(last, "num_parallel_calls")), o != "false"}
	}
}

// newParallelMapV1 parses ParallelMapDataset, whose number of calls is an int32.
func newParallelMapV1(s *dataset.Settings) dataset.Maker {
	f, keeps, sloppy := s.Function("f"), s.Bool("preserve_cardinality"), s.Bool("sloppy")
	return func(in *dataset.Inputs) dataset.Kind {
		last := in.Context.NumInputs() - 1
		n := dataset.Scalar(in, last, "num_parallel_calls", tensor.Int32, func(t *tensor.Tensor) int32 { return tensor.Of[int32](t)[0] })
		return &parallelMap{mapOf(in.Dataset(0), in.Function(f, 1, last), keeps), parallelCalls(in, int64(n)), !sloppy}
	}
}

// IsMap reports whether a dataset is a map.
func IsMap(k dataset.Kind) bool {
	switch k.(type) {
	case *mapped, *parallelMap:
		return true
	}
	return false
}

// Parallel returns the kind of a parallel map that keeps the number and the order of the elements.
func Parallel(in *dataset.Inputs, input *dataset.Dataset, f *dataset.Function, calls int64) dataset.Kind {
	return &parallelMap{mapOf(input, f, true), parallelCalls(in, calls), true}
}

// parallelCalls returns n calls or, if the choice is left to the server, one per processor. TensorFlow tunes it between one and that
// number.
func parallelCalls(in *dataset.Inputs, n int64) parallelism {
	if n == dataset.Autotune {
		return parallelism{parallelismOfHost(), true}
	}
	if in.Err == nil && n <= 0 {
		in.Failf("num_parallel_calls must be greater than zero.")
	}
	return parallelism{calls: min(n, maxParallel)}
}

// parallelismOfHost returns the number of processors.
func parallelismOfHost() int64 { return int64(runtime.GOMAXPROCS(0)) }

// maxParallel bounds the goroutines of a stage.
const maxParallel = 1024

func (k *parallelMap) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.f)
	if err != nil {
		return nil, err
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator {
		return newMappingAhead(e, o, k, func(c *dataset.Call, e dataset.Element) (dataset.Element, error) { return f.Call(c, e) })
	})
}

// result is a call's result, or the input's outcome if it returned no element.
type result struct {
	dataset.Outcome
	done bool
}

// mappingAhead has one goroutine that reads the input, and one for each call. It starts with the first Next.
type mappingAhead struct {
	dataset.Over
	of    *parallelMap
	stage *dataset.Stage
	crew  *dataset.Crew
	// apply calls the function for one element, which it takes over.
	apply func(c *dataset.Call, e dataset.Element) (dataset.Element, error)

	asking  dataset.Turn // to read the input and start a call
	mu      sync.Mutex
	results []*result // in the order of the elements
	running int64
	ended   bool
	news    chan struct{}
}

func newMappingAhead(e *dataset.Env, over dataset.Over, of *parallelMap, apply func(*dataset.Call, dataset.Element) (dataset.Element, error)) *mappingAhead {
	return &mappingAhead{Over: over, of: of, stage: e.Stage, asking: dataset.NewTurn(), apply: apply}
}

func (it *mappingAhead) begin(c *dataset.Call) {
	if it.crew == nil {
		it.crew = dataset.NewCrew(c.Env)
		it.news = make(chan struct{})
		it.stage.Attach(it)
		it.crew.Start(it.work)
	}
}

func (it *mappingAhead) changed() {
	close(it.news)
	it.news = make(chan struct{})
}

// Fill adds the calls in flight and the pending results.
func (it *mappingAhead) Fill(s *dataset.StageStats) {
	it.mu.Lock()
	defer it.mu.Unlock()
	s.Running += it.running
	s.Parallelism += it.of.calls
	s.Buffered += int64(len(it.results)) - it.running
	s.BufferSize = max(s.BufferSize, 0) + it.of.calls
	s.Tuned = s.Tuned || it.of.tuned
	for _, r := range it.results {
		if r.done {
			s.Bytes += r.Bytes()
		}
	}
}

// work starts calls while there is room.
func (it *mappingAhead) work() {
	for it.room() {
		if it.asking.Take(it.crew.Call) != nil {
			return
		}
		e, err := it.crew.Next(it.Input)
		it.mu.Lock()
		if dataset.AtEnd(err) {
			it.ended = true
		} else {
			r := &result{Outcome: dataset.Outcome{Element: nil, Err: err}, done: err != nil}
			it.results = append(it.results, r)
			if err == nil {
				it.running++
				it.crew.Start(func() { it.call(r, e) })
			}
		}
		ended := it.ended
		it.changed()
		it.mu.Unlock()
		it.asking.Leave()
		if ended {
			return
		}
	}
}

func (it *mappingAhead) call(r *result, e dataset.Element) {
	e, err := it.apply(it.crew.Call, e)
	it.mu.Lock()
	defer it.mu.Unlock()
	r.Outcome, r.done = dataset.Outcome{Element: e, Err: endedBy(err, it.of.keeps)}, true
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
		end := it.stage.WaitsForRoom()
		select {
		case <-news:
			end()
		case <-it.crew.Done:
			return false
		}
	}
}

func (it *mappingAhead) Next(c *dataset.Call) (dataset.Element, error) {
	it.begin(c)
	for {
		it.mu.Lock()
		if r := it.take(); r != nil {
			it.changed()
			it.mu.Unlock()
			return r.Element, r.Err
		}
		over, news := it.ended && len(it.results) == 0, it.news
		it.mu.Unlock()
		if over {
			return nil, io.EOF
		}
		end := it.stage.WaitsForElement()
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
		if !dataset.AtEnd(r.Err) {
			it.results = append(it.results[:i:i], it.results[i+1:]...)
		}
		return r
	}
	return nil
}

func (it *mappingAhead) Close() {
	if it.crew != nil {
		it.crew.Close()
	}
	it.stage.Detach(it)
	it.mu.Lock()
	for _, r := range it.results {
		r.Release()
	}
	it.results = nil
	it.mu.Unlock()
	it.Over.Close()
}

func (it *mappingAhead) Save(c *dataset.Call, w *dataset.Writer) {
	if err := it.asking.Take(c); err != nil {
		w.Fail(err)
		return
	}
	defer it.asking.Leave()
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
	list := make([]dataset.Outcome, len(it.results))
	for i, r := range it.results {
		list[i] = r.Outcome
		if dataset.AtEnd(r.Err) {
			list[i].Err = dataset.ErrEnded
		}
	}
	dataset.SaveOutcomes(w, "results", list)
	it.Over.Save(c, w)
}

func (it *mappingAhead) Restore(c *dataset.Call, r *dataset.Reader) {
	it.ended = r.Bool("ended")
	for _, o := range dataset.RestoreOutcomes(r, "results") {
		if status.CodeOf(o.Err) == status.OutOfRange {
			o.Err = io.EOF
		}
		it.results = append(it.results, &result{o, true})
	}
	it.Over.Restore(c, r)
}
