package mapping

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/selection"
)

// Datasets that measure which of several equivalent inputs or functions is the fastest, and choose that one.

// durations are the times that elements took.
type durations []time.Duration

// worst returns the 90th percentile; zero if there are no durations.
func (d durations) worst() time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)*9/10]
}

// fastestOf returns the index of the list with the smallest worst time; the last one on a tie.
func fastestOf(list []durations) int64 {
	best := 0
	for i, d := range list {
		if d.worst() <= list[best].worst() {
			best = i
		}
	}
	return int64(best)
}

// maxExperiments bounds the experiments, since the duration of each is kept.
const maxExperiments = 1 << 16

// fastest requests the first elements from several equal datasets concurrently.
type fastest struct {
	inputs      []*dataset.Dataset
	experiments int64
	number      int64
}

func newFastest(s *dataset.Settings) dataset.Maker {
	n, experiments := int(s.Int("N")), s.Int("num_experiments")
	if s.Err() == nil && experiments > maxExperiments {
		s.Failf("num_experiments must be at most %d, got %d", maxExperiments, experiments)
	}
	return func(in *dataset.Inputs) dataset.Kind {
		k := &fastest{inputs: in.Datasets(0, n), experiments: experiments, number: dataset.Unknown}
		if in.Err != nil {
			return k
		}
		in.Spec = compatible(in, "ChooseFastestDataset", k.inputs)
		for i, d := range k.inputs {
			switch n := d.Cardinality(nil); {
			case k.number == dataset.Unknown:
				k.number = n
			case n != k.number && n != dataset.Unknown:
				in.Failf("All inputs to ChooseFastestDataset must have compatible cardinalities. Input %d has cardinality: %d, while all prior inputs have cardinality: %d.", i, n, k.number)
			}
		}
		return k
	}
}

func (k *fastest) Cardinality(*dataset.Query) int64 { return k.number }

func (k *fastest) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &choosing{of: k, env: e, chosen: -1, times: make([]durations, len(k.inputs))}
	if k.experiments <= 0 {
		it.chosen = 0
	}
	for i, d := range k.inputs {
		if it.chosen >= 0 && int64(i) != it.chosen {
			it.inputs = append(it.inputs, nil)
			continue
		}
		input, err := d.Open(e.Input(int64(i)))
		if err != nil {
			it.Close()
			return nil, err
		}
		it.inputs = append(it.inputs, input)
	}
	return it, nil
}

type choosing struct {
	of     *fastest
	env    *dataset.Env
	inputs []dataset.Iterator // nil for those not chosen
	times  []durations
	done   int64 // experiments
	chosen int64 // -1 until chosen
}

func (it *choosing) Next(c *dataset.Call) (dataset.Element, error) {
	if it.chosen >= 0 {
		return it.inputs[it.chosen].Next(c)
	}
	// A step that gives up cancels the calls of all inputs.
	crew := dataset.NewCrew(it.env)
	defer crew.Close()
	own, end := it.env.NewCall(c.Depth, c.Cancellation, crew.Cancellation)
	defer end()
	outcomes := make([]dataset.Outcome, len(it.inputs))
	var all sync.WaitGroup
	for i, input := range it.inputs {
		all.Add(1)
		crew.Start(func() {
			defer all.Done()
			begun := time.Now()
			e, err := input.Next(own)
			outcomes[i] = dataset.Outcome{Element: e, Err: err}
			it.times[i] = append(it.times[i], time.Since(begun))
		})
	}
	all.Wait()
	crew.Wait()
	if err := crew.Cancellation.Err(); err != nil { // a panic
		for _, o := range outcomes {
			o.Release()
		}
		return nil, err
	}
	for _, o := range outcomes[1:] {
		o.Release()
	}
	if it.done++; it.done == it.of.experiments {
		it.choose(fastestOf(it.times))
	}
	return outcomes[0].Element, outcomes[0].Err
}

// choose selects an input and closes the iterators of the others.
func (it *choosing) choose(i int64) {
	it.chosen, it.times = i, nil
	for j, input := range it.inputs {
		if int64(j) != i && input != nil {
			input.Close()
			it.inputs[j] = nil
		}
	}
}

func (it *choosing) Close() {
	for _, input := range it.inputs {
		if input != nil {
			input.Close()
		}
	}
	it.inputs = nil
}

func (it *choosing) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("done", it.done)
	w.Int("chosen", it.chosen)
	for i, input := range it.inputs {
		if input != nil {
			input.Save(c, w.InAt("input", i))
		}
	}
}

func (it *choosing) Restore(c *dataset.Call, r *dataset.Reader) {
	it.done = r.Place("done")
	chosen := r.Int("chosen")
	if chosen < -1 || chosen >= int64(len(it.inputs)) || it.chosen >= 0 && chosen != it.chosen || chosen < 0 && it.done >= it.of.experiments {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a dataset of the fastest of %d has chosen %d after %d elements", len(it.inputs), chosen, it.done))
	}
	if r.Err != nil {
		return
	}
	if chosen >= 0 {
		it.choose(chosen)
	}
	for i, input := range it.inputs {
		if input != nil {
			input.Restore(c, r.InAt("input", i))
		}
	}
}

// fastestBranch measures each of several functions over some elements of the input, and then continues with the fastest. Each branch starts
// where the previous one stopped.
type fastestBranch struct {
	input              *dataset.Dataset
	branches           []*dataset.Function
	each               int64 // elements per branch
	numerator, divisor int64 // ratio of input to output elements
}

func newFastestBranch(s *dataset.Settings) dataset.Maker {
	list, lengths := s.List("branches").GetFunc(), s.IntList("other_arguments_lengths")
	each, total := s.Int("num_elements_per_branch"), len(s.TypeList("Targuments"))
	var attrs []*dataset.FunctionAttr
	for _, f := range list {
		attrs = append(attrs, s.FunctionRef(&graph.FunctionRef{Name: f.GetName(), Attrs: f.GetAttr()}))
	}
	if s.Err() == nil && len(lengths) != len(list) {
		s.Failf("branches and other_arguments_lengths must have the same length.")
	}
	sum := int64(0)
	for _, n := range lengths {
		if n < 0 || n > int64(total)-sum {
			s.Failf("other_arguments_lengths must add up to the %d other arguments", total)
			break
		}
		sum += n
	}
	if s.Err() == nil && each > maxExperiments {
		s.Failf("num_elements_per_branch must be at most %d, got %d", maxExperiments, each)
	}
	return func(in *dataset.Inputs) dataset.Kind {
		k := &fastestBranch{input: in.Dataset(0), each: each}
		k.numerator = in.Positive(in.Int(1, "ratio_numerator"), "`ratio_numerator`")
		k.divisor = in.Positive(in.Int(2, "ratio_denominator"), "`ratio_denominator`")
		if in.Err == nil && each%k.divisor != 0 {
			in.Failf("`num_elements_per_branch` must be divisible by `ratio_denominator`.")
		}
		at := 3
		for i, f := range attrs {
			k.branches = append(k.branches, in.Function(f, at, at+int(lengths[i])))
			at += int(lengths[i])
		}
		return k
	}
}

func (k *fastestBranch) Functions() []*dataset.Function { return k.branches }

func (k *fastestBranch) Cardinality(q *dataset.Query) int64 {
	n := k.input.Cardinality(q)
	if n < 0 {
		return n
	}
	return int64(float64(n) * float64(k.numerator) / float64(k.divisor))
}

func (k *fastestBranch) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &branching{of: k, env: e, chosen: -1, times: make([]durations, len(k.branches))}
	for _, f := range k.branches {
		b, err := e.Bind(f)
		if err != nil {
			return nil, err
		}
		it.bound = append(it.bound, b)
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { it.Over = o; return it })
}

type branching struct {
	dataset.Over
	of     *fastestBranch
	env    *dataset.Env
	bound  []*dataset.Bound
	times  []durations
	branch int64 // the one being measured; afterwards the number of branches
	given  int64 // elements returned by it
	chosen int64 // -1 until chosen
	now    *dataset.Opened
}

func (it *branching) Next(c *dataset.Call) (dataset.Element, error) {
	measuring := it.branch < int64(len(it.bound))
	if !measuring && it.chosen < 0 {
		it.chosen = fastestOf(it.times)
	}
	if it.now == nil {
		if err := it.begin(c); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	e, err := it.now.Next(c)
	if !measuring {
		return e, err
	}
	if it.given > 0 { // the first one includes startup time
		it.times[it.branch] = append(it.times[it.branch], time.Since(begun))
	}
	if it.given++; it.given >= it.of.each {
		it.given = 0
		it.branch++
		it.now.Close()
		it.now = nil
	}
	return e, err
}

// begin opens a branch on the input. While it is measured, it gets only the input that its elements need.
func (it *branching) begin(c *dataset.Call) error {
	at, count := it.branch, it.of.each*it.of.numerator/it.of.divisor
	if at >= int64(len(it.bound)) {
		at, count = it.chosen, -1
	}
	input := dataset.NewPart(&borrowed{of: it.Input}, "ChooseFastestBranch_Wrapper", it.of.input.Spec)
	first := dataset.NewPart(selection.Take(input, count), "ChooseFastestBranch_Take", input.Spec, input)
	t, err := it.bound[at].Open(c, it.env.Input(at), dataset.Element{dataset.ToTensor(first)})
	if err == nil {
		it.now = t
	}
	return err
}

func (it *branching) Close() {
	if it.now != nil {
		it.now.Close()
		it.now = nil
	}
	it.Over.Close()
}

func (it *branching) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("branch", it.branch)
	w.Int("given", it.given)
	w.Int("chosen", it.chosen)
	w.Bool("open", it.now != nil)
	if it.now != nil {
		it.now.Save(c, w.In("now"))
	}
	it.Over.Save(c, w)
}

func (it *branching) Restore(c *dataset.Call, r *dataset.Reader) {
	it.branch, it.given, it.chosen = r.Place("branch"), r.Place("given"), r.Int("chosen")
	n := int64(len(it.bound))
	if it.branch > n || it.chosen < -1 || it.chosen >= n || it.given >= it.of.each {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a dataset of the fastest of %d branches is at element %d of %d, and has chosen %d", n, it.given, it.branch, it.chosen))
	}
	if r.Err != nil {
		return
	}
	if it.branch == n && it.chosen < 0 {
		it.chosen = fastestOf(it.times)
	}
	it.Over.Restore(c, r)
	if r.Bool("open") && r.Err == nil {
		if err := it.begin(c); err != nil {
			r.Fail(err)
			return
		}
		it.now.Restore(c, r.In("now"))
	}
}

// borrowed is a dataset of the remaining elements of another owner's iterator. It can be iterated over once.
type borrowed struct {
	of    dataset.Iterator
	taken atomic.Bool
}

func (*borrowed) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *borrowed) Open(*dataset.Env) (dataset.Iterator, error) {
	if k.taken.Swap(true) {
		return nil, status.InvalidArgumentf("Cannot create more than one WrapperIterator per WrapperDataset. Make sure the branches to ChooseFastestDataset do not expect the input to repeat.")
	}
	return &lent{of: k.of}, nil
}

// lent passes elements on from an iterator that its owner saves and closes.
type lent struct {
	dataset.Stateless
	of dataset.Iterator
}

func (it *lent) Next(c *dataset.Call) (dataset.Element, error) { return it.of.Next(c) }
