package passthrough

import (
	"sync"
	"sync/atomic"
	"time"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/events"
	"github.com/troupe-run/troupe/kernels/internal/histogram"
	"google.golang.org/protobuf/proto"
)

// The kinds of resources that old graphs pass to pipelines.
const (
	kindStats      = "tensorflow::data::StatsAggregatorResource"
	kindThreadPool = "tensorflow::data::ThreadPoolResource"
	// kindSummaryWriter is that of package summary.
	kindSummaryWriter = "SummaryWriter"
)

// aggregator collects the measurements of stages as histograms by name. All methods may be called concurrently.
type aggregator struct {
	pushes bool // to a summary writer, at each value; otherwise StatsAggregatorSummary polls

	mu         sync.Mutex
	histograms map[string]*histogram.Histogram
	order      []string
	writer     *events.Writer
	deleted    bool
}

// maxHistograms bounds the distinct names of an aggregator.
const maxHistograms = 10_000

// Close discards what was collected.
func (a *aggregator) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted, a.histograms, a.order, a.writer = true, nil, nil, nil
}

// Deleted reports whether Close was called.
func (a *aggregator) Deleted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.deleted
}

// add adds a value, which belongs to the step-th element.
func (a *aggregator) add(name string, v float64, step int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deleted {
		return nil
	}
	h := a.histograms[name]
	if h == nil {
		if len(a.histograms) >= maxHistograms {
			return status.Errorf(status.ResourceExhausted, "A StatsAggregator has more than %d histograms", maxHistograms)
		}
		if a.histograms == nil {
			a.histograms = map[string]*histogram.Histogram{}
		}
		h = histogram.New()
		a.histograms[name] = h
		a.order = append(a.order, name)
	}
	h.Add(v)
	if !a.pushes || a.writer == nil {
		return nil
	}
	b, err := proto.Marshal(&summarypb.Summary{Value: []*summarypb.Summary_Value{{Tag: name, Value: &summarypb.Summary_Value_Histo{Histo: h.Proto()}}}})
	if err != nil {
		return err
	}
	return a.writer.Write(events.Summary(time.Now(), step, b))
}

// summary returns what was collected, as a serialized Summary.
func (a *aggregator) summary() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &summarypb.Summary{}
	if !a.pushes {
		for _, name := range a.order {
			s.Value = append(s.Value, &summarypb.Summary_Value{Tag: name, Value: &summarypb.Summary_Value_Histo{Histo: a.histograms[name].Proto()}})
		}
	}
	return proto.Marshal(s)
}

// newStatsAggregator returns the constructor of an aggregator's kernel. For pushes, see aggregator.
func newStatsAggregator(pushes bool) func(c *kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		return kernels.NewSource(c, kindStats, kernels.NamedByNode, func(string) (*aggregator, error) { return &aggregator{pushes: pushes}, nil }, nil)
	}
}

func statsSummary(ctx *kernels.Context) error {
	a, err := kernels.ResourceAt[*aggregator](ctx, 0, kindStats)
	if err != nil {
		return err
	}
	b, err := a.summary()
	if err == nil {
		ctx.SetOutput(0, tensor.FromScalar(string(b)))
	}
	return err
}

// setStatsWriter makes an aggregator write to a summary writer.
func setStatsWriter(ctx *kernels.Context) error {
	a, err := kernels.ResourceAt[*aggregator](ctx, 0, kindStats)
	if err != nil {
		return err
	}
	w, err := kernels.ResourceAt[*events.Writer](ctx, 1, kindSummaryWriter)
	if err != nil {
		return err
	}
	if err := w.Check(ctx.Files()); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writer = w
	return nil
}

// taggedStats is an aggregator with a prefix for the names of a pipeline's statistics.
type taggedStats struct {
	*aggregator
	tag string
}

// Record adds a value of a statistic, whose name gets the prefix.
func (s *taggedStats) Record(name string, v float64, step int64) error {
	return s.add(s.tag+name, v, step)
}

// setStats is a dataset whose stages report measurements to an aggregator.
type setStats struct {
	pass
	stats *taggedStats
}

func newSetStats(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := setStats{pass: pass{in.Dataset(0)}}
		tag := in.Str(2, "tag")
		in.Str(3, "counter_prefix") // for counters, which no stage has
		if in.Err != nil {
			return k
		}
		a, err := kernels.ResourceAt[*aggregator](in.Context, 1, kindStats)
		if err != nil {
			in.Fail(err)
			return k
		}
		if tag != "" {
			tag += "::"
		}
		k.stats = &taggedStats{a, tag}
		return k
	}
}

func (k setStats) Open(e *dataset.Env) (dataset.Iterator, error) {
	return k.Dataset.Open(e.WithRecorder(k.stats))
}

// measured is a dataset that reports its elements' latency or size to an aggregator.
type measured struct {
	pass
	tag   string
	bytes bool
}

func newMeasured(bytes bool) func(*dataset.Settings) dataset.Maker {
	return func(*dataset.Settings) dataset.Maker {
		return func(in *dataset.Inputs) dataset.Kind { return measured{pass{in.Dataset(0)}, in.Str(1, "tag"), bytes} }
	}
}

func (k measured) Open(e *dataset.Env) (dataset.Iterator, error) {
	to := e.Recorder()
	if to == nil {
		return k.Dataset.Open(e)
	}
	return dataset.OpenOver(e, k.Dataset, func(o dataset.Over) dataset.Iterator { return &measuring{Over: o, of: k, to: to} })
}

type measuring struct {
	dataset.Over
	of    measured
	to    dataset.Recorder
	given int64
}

func (it *measuring) Next(c *dataset.Call) (dataset.Element, error) {
	begun := time.Now()
	e, err := it.Input.Next(c)
	if err != nil {
		return nil, err
	}
	v := float64(time.Since(begun).Microseconds())
	if it.of.bytes {
		v = float64(e.Bytes())
	}
	if err := it.to.Record(it.of.tag, v, it.given); err != nil {
		e.Release()
		return nil, err
	}
	it.given++
	return e, nil
}

// threadPool is the resource of a thread pool. It is only a number, since Go's scheduler runs the pipelines.
type threadPool struct{ deleted atomic.Bool }

// Close marks the pool as deleted.
func (p *threadPool) Close() { p.deleted.Store(true) }

// Deleted reports whether Close was called.
func (p *threadPool) Deleted() bool { return p.deleted.Load() }

// maxThreads is the lowest number of threads that is rejected, as in TensorFlow.
const maxThreads = 1 << 16

func newThreadPool(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	switch n := s.Int("num_threads"); {
	case s.Err() != nil:
	case n < 0:
		s.Failf("`num_threads` must be >= 0")
	case n >= maxThreads:
		s.Failf("`num_threads` must be < %d", maxThreads)
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	return kernels.NewSource(c, kindThreadPool, kernels.NamedByNode, func(string) (*threadPool, error) { return &threadPool{}, nil }, nil)
}

func newThreadPoolDataset(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := pass{in.Dataset(0)}
		if _, err := kernels.ResourceAt[*threadPool](in.Context, 1, kindThreadPool); err != nil {
			in.Fail(err)
		}
		return k
	}
}
