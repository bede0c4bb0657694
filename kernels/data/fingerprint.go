package data

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// Fingerprints of datasets: equal ones have equal elements, regardless of the names of their nodes and functions and of shuffle seeds. As
// in TensorFlow, they identify a dataset's snapshot. The numbers differ from TensorFlow's.

type digest [sha256.Size]byte

// fingerprint returns a number for a dataset and for the strings in more. It includes the current contents of the variables and tables that
// the dataset captures.
func fingerprint(ctx *kernels.Context, d *Dataset, more ...string) (uint64, error) {
	f := &fingerprinter{ctx: ctx, datasets: map[*Dataset]digest{}}
	sum, err := f.dataset(d)
	if err != nil {
		return 0, err
	}
	h := sha256.New()
	h.Write(sum[:])
	for _, s := range more {
		fmt.Fprintf(h, "%q", s)
	}
	return binary.LittleEndian.Uint64(h.Sum(nil)), nil
}

type fingerprinter struct {
	ctx      *kernels.Context
	datasets map[*Dataset]digest
}

func (f *fingerprinter) dataset(d *Dataset) (digest, error) {
	if sum, ok := f.datasets[d]; ok {
		return sum, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "dataset %q\n", d.Op)
	if d.node != nil {
		functions := &functionPrinter{defs: map[string]*functionpb.FunctionDef{}, done: map[string]digest{}}
		if k, ok := d.kind.(interface{ functions() []*Function }); ok {
			for _, fn := range k.functions() {
				if err := fn.library.Defs(fn.ref, functions.defs); err != nil {
					return digest{}, err
				}
			}
		}
		if err := functions.attrs(h, d.node.Attrs); err != nil {
			return digest{}, err
		}
	}
	for i, t := range d.origin.inputs {
		if isSeed(d.Op, i) {
			continue
		}
		if err := f.input(h, t); err != nil {
			return digest{}, err
		}
	}
	if d.node == nil { // part of another dataset, which has the inputs
		for _, in := range d.inputs {
			sum, err := f.dataset(in)
			if err != nil {
				return digest{}, err
			}
			h.Write(sum[:])
		}
	}
	sum := digest(h.Sum(nil))
	f.datasets[d] = sum
	return sum, nil
}

func (f *fingerprinter) input(h io.Writer, t *tensor.Tensor) error {
	if t.DType() == tensor.Variant && t.Rank() == 0 {
		if d, ok := t.Variants()[0].(*Dataset); ok {
			sum, err := f.dataset(d)
			if err == nil {
				_, err = h.Write(sum[:])
			}
			return err
		}
	}
	if t.DType() == tensor.Resource {
		return f.resources(h, t)
	}
	p, err := t.Proto()
	if err != nil {
		return err
	}
	return hashMessage(h, p)
}

// resources writes the contents of the resources that handles name, as the nodes that create such resources. For a resource without
// contents, or without contents that this device can read, it writes the type: a fingerprint does not check whether the dataset can be
// used.
func (f *fingerprinter) resources(h io.Writer, t *tensor.Tensor) error {
	for _, r := range t.Handles() {
		fmt.Fprintf(h, "resource %q\n", r.Type)
		handle := tensor.FromHandle(r)
		m := &graphMaker{ctx: f.ctx, resources: map[any]string{}}
		_, known, err := m.contents(handle)
		handle.Release()
		if !known || err != nil {
			continue
		}
		for _, n := range m.def.Node {
			if err := hashMessage(h, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func hashMessage(h io.Writer, m proto.Message) error {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "message %d\n", len(b))
	_, err = h.Write(b)
	return err
}

// isSeed reports whether input i of an op is a seed.
func isSeed(op string, i int) bool {
	switch op {
	case "ShuffleDataset", "ShuffleDatasetV3", "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2":
		return i == 2 || i == 3
	}
	return false
}

// functionPrinter computes fingerprints of functions.
type functionPrinter struct {
	defs  map[string]*functionpb.FunctionDef
	done  map[string]digest
	depth int
}

// attrs writes the attributes that do not concern names.
func (p *functionPrinter) attrs(h io.Writer, attrs map[string]*attrpb.AttrValue) error {
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if strings.HasPrefix(name, "_") || name == "metadata" {
			continue
		}
		fmt.Fprintf(h, "attr %q\n", name)
		v := attrs[name]
		list := v.GetList().GetFunc()
		if f := v.GetFunc(); f != nil {
			list = []*attrpb.NameAttrList{f}
		}
		if len(list) == 0 {
			if err := hashMessage(h, v); err != nil {
				return err
			}
			continue
		}
		for _, f := range list {
			sum, err := p.function(f.GetName())
			if err != nil {
				return err
			}
			if _, err := h.Write(sum[:]); err != nil {
				return err
			}
			if err := p.attrs(h, f.GetAttr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// function returns the fingerprint of a function: of its results, and of its nodes that have effects.
func (p *functionPrinter) function(name string) (digest, error) {
	if sum, ok := p.done[name]; ok {
		return sum, nil
	}
	if p.depth >= maxNesting {
		return digest{}, status.Errorf(status.ResourceExhausted, "Function %s: functions call one another more than %d deep", name, maxNesting)
	}
	p.depth++
	defer func() { p.depth-- }()
	p.done[name] = digest{} // placeholder for recursive calls
	def := p.defs[name]
	h := sha256.New()
	if def == nil {
		fmt.Fprintf(h, "op %q\n", name)
	} else {
		b := &bodyPrinter{functionPrinter: p, nodes: map[string]*nodepb.NodeDef{}, args: map[string]int{}, done: map[string]digest{}}
		for i, a := range def.GetSignature().GetInputArg() {
			b.args[a.GetName()] = i
			fmt.Fprintf(h, "arg %v\n", a.GetType())
		}
		for _, n := range def.GetNodeDef() {
			b.nodes[n.GetName()] = n
		}
		for _, out := range def.GetSignature().GetOutputArg() {
			if err := b.result(h, def.GetRet()[out.GetName()]); err != nil {
				return digest{}, err
			}
		}
		for _, out := range slices.Sorted(maps.Keys(def.GetControlRet())) {
			if err := b.result(h, "^"+def.GetControlRet()[out]); err != nil {
				return digest{}, err
			}
		}
	}
	p.done[name] = digest(h.Sum(nil))
	return p.done[name], nil
}

type bodyPrinter struct {
	*functionPrinter
	nodes map[string]*nodepb.NodeDef
	args  map[string]int
	done  map[string]digest
}

// result writes a result.
func (b *bodyPrinter) result(h io.Writer, input string) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(input, "^"), ":")
	if _, isArg := b.args[name]; !isArg {
		if err := b.prepare(name); err != nil {
			return err
		}
	}
	return b.input(h, input)
}

// input writes an input of a node, whose digest is already computed.
func (b *bodyPrinter) input(h io.Writer, input string) error {
	name, out, _ := strings.Cut(strings.TrimPrefix(input, "^"), ":")
	if i, ok := b.args[name]; ok {
		fmt.Fprintf(h, "argument %d\n", i)
		return nil
	}
	sum := b.done[name]
	fmt.Fprintf(h, "output %q %t\n", out, strings.HasPrefix(input, "^"))
	_, err := h.Write(sum[:])
	return err
}

// prepare computes the digests of a node and of its transitive inputs, inputs first. The chain of inputs may be arbitrarily long.
func (b *bodyPrinter) prepare(name string) error {
	finished := map[string]bool{}
	for left := []string{name}; len(left) > 0; {
		name := left[len(left)-1]
		if _, met := b.done[name]; !met {
			b.done[name] = digest{} // placeholder for loops
			finished[name] = false
			for _, in := range slices.Backward(b.nodes[name].GetInput()) {
				from, _, _ := strings.Cut(strings.TrimPrefix(in, "^"), ":")
				if _, isArg := b.args[from]; !isArg {
					left = append(left, from)
				}
			}
			continue
		}
		left = left[:len(left)-1]
		if done, mine := finished[name]; done || !mine {
			continue
		}
		finished[name] = true
		sum, err := b.node(name)
		if err != nil {
			return err
		}
		b.done[name] = sum
	}
	return nil
}

// node returns the digest of a node whose inputs already have theirs.
func (b *bodyPrinter) node(name string) (digest, error) {
	n := b.nodes[name]
	h := sha256.New()
	fmt.Fprintf(h, "node %q\n", n.GetOp())
	if err := b.attrs(h, n.GetAttr()); err != nil {
		return digest{}, err
	}
	var control []string
	for _, in := range n.GetInput() {
		if strings.HasPrefix(in, "^") {
			control = append(control, in)
			continue
		}
		if err := b.input(h, in); err != nil {
			return digest{}, err
		}
	}
	// The order of control inputs does not matter.
	var sums []string
	for _, in := range control {
		one := sha256.New()
		if err := b.input(one, in); err != nil {
			return digest{}, err
		}
		sums = append(sums, string(one.Sum(nil)))
	}
	slices.Sort(sums)
	for _, s := range sums {
		if _, err := io.WriteString(h, s); err != nil {
			return digest{}, err
		}
	}
	return digest(h.Sum(nil)), nil
}

// fingerprintOf outputs the fingerprint of a dataset.
func fingerprintOf(ctx *kernels.Context, p place) error {
	d, err := datasetIn(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	v, err := fingerprint(ctx, d)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Uint64, v))
	}
	return err
}

// batchSize outputs the number of rows of a dataset's elements, as far as its batches determine it; -1 if unknown.
func batchSize(ctx *kernels.Context, p place) error {
	d, err := datasetIn(p, ctx.Input(0))
	if err != nil {
		return err
	}
	defer d.Release()
	ctx.SetOutput(0, int64Scalar(batchSizeOf(d, map[*Dataset]int64{})))
	return nil
}

// keepsBatches are the ops whose elements have as many rows as those of their input.
var keepsBatches = []string{
	"AssertCardinalityDataset", "CacheDataset", "FilterDataset", "FinalizeDataset", "Identity", "ModelDataset", "OptimizeDataset",
	"OptionsDataset", "ParseExampleDataset", "PrefetchDataset", "RepeatDataset", "ShardDataset", "ShuffleAndRepeatDataset", "ShuffleDataset",
	"SkipDataset", "TakeDataset",
}

func batchSizeOf(d *Dataset, known map[*Dataset]int64) int64 {
	n, ok := known[d]
	if !ok {
		n = batchSizeBy(d, known)
		known[d] = n
	}
	return n
}

func batchSizeBy(d *Dataset, known map[*Dataset]int64) int64 {
	is := func(op string) bool { return matchesAnyVersion(op, d.Op) }
	number := func(i int) int64 {
		if i < 0 || i >= len(d.origin.inputs) || d.origin.inputs[i].DType() != tensor.Int64 || d.origin.inputs[i].Len() != 1 {
			return -1
		}
		return tensor.Of[int64](d.origin.inputs[i])[0]
	}
	switch {
	case is("BatchDataset") || is("PaddedBatchDataset"):
		return number(1)
	case is("MapAndBatchDataset") || is("ExperimentalMapAndBatchDataset"):
		return number(len(d.origin.inputs) - 3)
	case is("ConcatenateDataset") || is("ZipDataset"):
		size := int64(-1)
		for i, in := range d.inputs {
			n := batchSizeOf(in, known)
			if i > 0 && n != size {
				return -1
			}
			size = n
		}
		return size
	case slices.ContainsFunc(keepsBatches, is):
		if in := d.previous(); in != nil {
			return batchSizeOf(in, known)
		}
	}
	return -1
}
