package data

import (
	"sync"
	"time"

	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
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
		ctx.SetOutput(0, stringScalar(string(b)))
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

// setStats is a dataset whose stages report measurements to an aggregator.
type setStats struct {
	pass
	stats *taggedStats
}

func newSetStats(*settings) maker {
	return func(in *inputs) kind {
		k := setStats{pass: pass{in.dataset(0)}}
		tag := in.str(2, "tag")
		in.str(3, "counter_prefix") // for counters, which no stage has
		if in.err != nil {
			return k
		}
		a, err := kernels.ResourceAt[*aggregator](in.ctx, 1, kindStats)
		if err != nil {
			in.fail(err)
			return k
		}
		if tag != "" {
			tag += "::"
		}
		k.stats = &taggedStats{a, tag}
		return k
	}
}

func (k setStats) open(e *Env) (Iterator, error) {
	c := *e
	c.stats = k.stats
	return k.Dataset.open(&c)
}

// measured is a dataset that reports its elements' latency or size to an aggregator.
type measured struct {
	pass
	tag   string
	bytes bool
}

func newMeasured(bytes bool) func(*settings) maker {
	return func(*settings) maker {
		return func(in *inputs) kind { return measured{pass{in.dataset(0)}, in.str(1, "tag"), bytes} }
	}
}

func (k measured) open(e *Env) (Iterator, error) {
	if e.stats == nil {
		return k.Dataset.open(e)
	}
	return openOver(e, k.Dataset, func(o over) Iterator { return &measuring{over: o, of: k, stats: e.stats} })
}

type measuring struct {
	over
	of    measured
	stats *taggedStats
	given int64
}

func (it *measuring) Next(c *Call) (Element, error) {
	begun := time.Now()
	e, err := it.input.Next(c)
	if err != nil {
		return nil, err
	}
	v := float64(time.Since(begun).Microseconds())
	if it.of.bytes {
		v = float64(e.bytes())
	}
	if err := it.stats.add(it.stats.tag+it.of.tag, v, it.given); err != nil {
		e.release()
		return nil, err
	}
	it.given++
	return e, nil
}

// threadPool is the resource of a thread pool. It is only a number, since Go's scheduler runs the pipelines.
type threadPool struct{ holder }

// Deleted reports whether Close was called.
func (p *threadPool) Deleted() bool { return p.deleted.Load() }

// maxThreads is the lowest number of threads that is rejected, as in TensorFlow.
const maxThreads = 1 << 16

func newThreadPool(c *kernels.Construction) (any, error) {
	s := settingsOf(c)
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

func newThreadPoolDataset(*settings) maker {
	return func(in *inputs) kind {
		k := pass{in.dataset(0)}
		if _, err := kernels.ResourceAt[*threadPool](in.ctx, 1, kindThreadPool); err != nil {
			in.fail(err)
		}
		return k
	}
}
